#include "server/worker/worker_service_impl.h"

#include <optional>
#include <thread>
#include <utility>

#include "platform/base/check.h"
#include "platform/base/error_info.h"
#include "platform/base/fault_point.h"
#include "platform/base/status_macros.h"
#include "server/ipc/grpc_status.h"
#include "server/worker/call_guarded.h"
#include "server/worker/queue_observer.h"

namespace ferry {
namespace {

using worker::v1::JoinWavesRequest;
using worker::v1::JoinWavesResponse;
using worker::v1::RunGenerationRequest;
using worker::v1::RunGenerationResponse;

// How soon a call sees that it was cancelled.
constexpr absl::Duration kSlice = absl::Milliseconds(10);
// A few outputs in flight; ferryd reads faster than pipelines write.
constexpr int64_t kMaxQueuedBytes = int64_t{8} << 20;

absl::Status wrong_state(absl::string_view message) {
  return make_error(absl::StatusCode::kFailedPrecondition, message,
                    {"WRONG_STATE", {}});
}

using WaveStream =
    grpc::ServerReaderWriter<JoinWavesResponse, JoinWavesRequest>;

// What ferryd starts, until its end of the stream.
absl::Status read_waves(WaveStream& stream, WaveLine& waves) {
  JoinWavesRequest request;
  while (stream.Read(&request)) {
    RETURN_IF_ERROR(waves.start(request.wave()));
  }
  return absl::OkStatus();
}

// What the rank wants, until the line is closed.
absl::Status write_waves(WaveLine& waves, WaveStream& stream) {
  while (const std::optional<int64_t> last_wave = waves.next_wanted()) {
    JoinWavesResponse response;
    response.set_last_wave(*last_wave);
    // What fails here ends the reading, too.
    stream.Write(response);
  }
  return absl::OkStatus();
}

// Frees the rank at the end of a call, whatever ends it.
class SlotRelease {
 public:
  explicit SlotRelease(GenerationSlot& slot) : slot_(slot) {}
  ~SlotRelease() { slot_.release(); }
  SlotRelease(const SlotRelease&) = delete;
  SlotRelease& operator=(const SlotRelease&) = delete;

 private:
  GenerationSlot& slot_;
};

}  // namespace

WorkerServiceImpl::WorkerServiceImpl(PipelineLoader loader,
                                     ProcessEnder end_process,
                                     const Clock& clock)
    : loader_(std::move(loader)),
      end_process_(std::move(end_process)),
      slot_(clock),
      recorders_(clock) {}

WorkerServiceImpl::~WorkerServiceImpl() {
  FERRY_CHECK(slot_.wait_idle(absl::ZeroDuration()));
  {
    MutexLock lock(&mutex_);
    FERRY_CHECK_NE(state_, State::kLoading);
  }
  step_thread_.run([this] { loaded_.reset(); });
}

grpc::Status WorkerServiceImpl::LoadPipeline(
    grpc::ServerContext* /*context*/,
    const worker::v1::LoadPipelineRequest* request,
    worker::v1::LoadPipelineResponse* response) {
  return to_grpc_status(load(*request, *response));
}

absl::Status WorkerServiceImpl::load(
    const worker::v1::LoadPipelineRequest& request,
    worker::v1::LoadPipelineResponse& response) {
  RETURN_IF_ERROR(begin_load());
  absl::Status status;
  step_thread_.run([&] {
    status = call_guarded("LoadPipeline",
                          [&] { return load_here(request, response); });
  });
  MutexLock lock(&mutex_);
  state_ = status.ok() ? State::kLoaded : State::kFailed;
  return status;
}

absl::Status WorkerServiceImpl::begin_load() {
  MutexLock lock(&mutex_);
  if (state_ != State::kEmpty) {
    return wrong_state("a worker loads one pipeline, once");
  }
  state_ = State::kLoading;
  return absl::OkStatus();
}

absl::Status WorkerServiceImpl::load_here(
    const worker::v1::LoadPipelineRequest& request,
    worker::v1::LoadPipelineResponse& response) {
  absl::StatusOr<std::unique_ptr<LoadedPipeline>> loaded =
      loader_(request, &waves_, &recorders_);
  look_at(loaded.status());
  RETURN_IF_ERROR(loaded.status());
  loaded_ = *std::move(loaded);
  *response.mutable_pipeline() = loaded_->description();
  response.set_device(loaded_->device());
  return absl::OkStatus();
}

grpc::Status WorkerServiceImpl::RunGeneration(
    grpc::ServerContext* context, const RunGenerationRequest* request,
    grpc::ServerWriter<RunGenerationResponse>* writer) {
  // ferryd may have cancelled the call before a thread took it, and believes
  // that the rank is free.
  if (context->IsCancelled()) return grpc::Status::CANCELLED;
  if (absl::Status status = begin_generation(request->job()); !status.ok()) {
    return to_grpc_status(status);
  }
  const SlotRelease release(slot_);
  // Or since then: what nobody reads must not keep the rank from its next job.
  if (context->IsCancelled()) return grpc::Status::CANCELLED;
  EventQueue events(kMaxQueuedBytes);
  const absl::Status posted = call_guarded("RunGeneration", [&] {
    step_thread_.post([&] { generate(*request, events); });
    return absl::OkStatus();
  });
  if (!posted.ok()) return to_grpc_status(posted);
  const absl::Status sent = send_events(*context, events, *writer);
  return to_grpc_status(sent.ok() ? events.status() : sent);
}

absl::Status WorkerServiceImpl::send_events(
    const grpc::ServerContext& context, EventQueue& events,
    grpc::ServerWriter<RunGenerationResponse>& writer) {
  absl::Status status;
  RunGenerationResponse event;
  EventQueue::Popped popped;
  while ((popped = events.pop(kSlice, &event)) != EventQueue::Popped::kEnd) {
    bool writable = true;
    if (popped == EventQueue::Popped::kEvent) {
      status.Update(call_guarded("sending an event", [&] {
        if (event.has_output_chunk()) fault_point("send_output");
        writable = writer.Write(event);
        return absl::OkStatus();
      }));
      writable = writable && status.ok();
    }
    if (!writable || context.IsCancelled()) {
      slot_.request_cancel();
      events.abandon();
    }
  }
  return status;
}

absl::Status WorkerServiceImpl::begin_generation(const std::string& job) {
  {
    MutexLock lock(&mutex_);
    if (state_ != State::kLoaded) return wrong_state("no pipeline is loaded");
  }
  return slot_.acquire(job);
}

void WorkerServiceImpl::look_at(const absl::Status& status) const {
  const std::optional<ErrorInfo> info = get_error_info(status);
  if (info.has_value() &&
      (info->reason == kDeviceFailed || info->reason == kGroupFailed)) {
    end_process_(status);
  }
}

void WorkerServiceImpl::generate(const RunGenerationRequest& request,
                                 EventQueue& events) {
  events.finish(call_guarded("RunGeneration",
                             [&] { return generate_here(request, events); }));
}

absl::Status WorkerServiceImpl::generate_here(
    const RunGenerationRequest& request, EventQueue& events) {
  QueueObserver observer(request.spec().output().omit_data(), slot_, events);
  absl::StatusOr<GenerationReport> report =
      loaded_->generate(request.spec(), observer);
  look_at(report.status());
  RETURN_IF_ERROR(report.status());
  RunGenerationResponse event;
  *event.mutable_summary()->mutable_timings() = std::move(report->timings);
  event.mutable_summary()->set_prompt_truncated(report->prompt_truncated);
  v1::Pipeline description = loaded_->description();
  if (description.has_offload()) {
    event.mutable_summary()->mutable_offload()->Swap(
        description.mutable_offload());
  }
  events.push(std::move(event));
  return absl::OkStatus();
}

grpc::Status WorkerServiceImpl::WaitIdle(
    grpc::ServerContext* context,
    const worker::v1::WaitIdleRequest* /*request*/,
    worker::v1::WaitIdleResponse* /*response*/) {
  while (!slot_.wait_idle(kSlice)) {
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
  }
  return grpc::Status::OK;
}

grpc::Status WorkerServiceImpl::Heartbeat(
    grpc::ServerContext* /*context*/,
    const worker::v1::HeartbeatRequest* /*request*/,
    worker::v1::HeartbeatResponse* response) {
  fault_point("heartbeat");
  *response = slot_.heartbeat();
  return grpc::Status::OK;
}

grpc::Status WorkerServiceImpl::GetFlightRecords(
    grpc::ServerContext* /*context*/,
    const worker::v1::GetFlightRecordsRequest* /*request*/,
    worker::v1::GetFlightRecordsResponse* response) {
  for (v1::GroupFlightRecords& group : recorders_.records()) {
    *response->add_groups() = std::move(group);
  }
  return grpc::Status::OK;
}

grpc::Status WorkerServiceImpl::JoinWaves(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<JoinWavesResponse, JoinWavesRequest>* stream) {
  if (absl::Status status = begin_waves(); !status.ok()) {
    return to_grpc_status(status);
  }
  std::thread writer;
  const absl::Status status = call_guarded("JoinWaves", [&] {
    writer = std::thread([&] {
      const absl::Status written = call_guarded(
          "JoinWaves", [&] { return write_waves(waves_, *stream); });
      // The reading ends, too.
      if (!written.ok()) context->TryCancel();
    });
    return read_waves(*stream, waves_);
  });
  waves_.close();
  if (writer.joinable()) writer.join();
  return to_grpc_status(status);
}

absl::Status WorkerServiceImpl::begin_waves() {
  MutexLock lock(&mutex_);
  if (joined_waves_) return wrong_state("waves are joined once");
  joined_waves_ = true;
  return absl::OkStatus();
}

}  // namespace ferry
