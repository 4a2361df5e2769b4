#include "server/worker/worker_service_impl.h"

#include <utility>

#include "platform/base/error_info.h"
#include "platform/base/fault_point.h"
#include "server/ipc/grpc_status.h"
#include "server/worker/queue_observer.h"

namespace ferry {
namespace {

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

}  // namespace

WorkerServiceImpl::WorkerServiceImpl(PipelineLoader loader, const Clock& clock)
    : loader_(std::move(loader)), slot_(clock) {}

WorkerServiceImpl::~WorkerServiceImpl() {
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
  {
    MutexLock lock(&mutex_);
    if (state_ != State::kEmpty) {
      return wrong_state("a worker loads one pipeline, once");
    }
    state_ = State::kLoading;
  }
  absl::Status status;
  step_thread_.run([&] {
    absl::StatusOr<std::unique_ptr<LoadedPipeline>> loaded = loader_(request);
    status = loaded.status();
    if (!status.ok()) return;
    loaded_ = *std::move(loaded);
    *response.mutable_pipeline() = loaded_->description();
    response.set_device(loaded_->device());
  });
  MutexLock lock(&mutex_);
  state_ = status.ok() ? State::kLoaded : State::kFailed;
  return status;
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
  // Or since then: what nobody reads must not keep the rank from its next job.
  if (context->IsCancelled()) {
    slot_.release();
    return grpc::Status::CANCELLED;
  }
  EventQueue events(kMaxQueuedBytes);
  step_thread_.post([&] { generate(*request, events); });
  RunGenerationResponse event;
  EventQueue::Popped popped;
  while ((popped = events.pop(kSlice, &event)) != EventQueue::Popped::kEnd) {
    if (popped == EventQueue::Popped::kEvent && event.has_output_chunk()) {
      fault_point("send_output");
    }
    const bool writable =
        popped == EventQueue::Popped::kNothingYet || writer->Write(event);
    if (!writable || context->IsCancelled()) {
      slot_.request_cancel();
      events.abandon();
    }
  }
  slot_.release();
  return to_grpc_status(events.status());
}

absl::Status WorkerServiceImpl::begin_generation(const std::string& job) {
  {
    MutexLock lock(&mutex_);
    if (state_ != State::kLoaded) return wrong_state("no pipeline is loaded");
  }
  return slot_.acquire(job);
}

void WorkerServiceImpl::generate(const RunGenerationRequest& request,
                                 EventQueue& events) {
  QueueObserver observer(request.spec().output().omit_data(), slot_, events);
  absl::StatusOr<GenerationReport> report =
      loaded_->generate(request.spec(), observer);
  if (report.ok()) {
    RunGenerationResponse event;
    *event.mutable_summary()->mutable_timings() = std::move(report->timings);
    event.mutable_summary()->set_prompt_truncated(report->prompt_truncated);
    events.push(std::move(event));
  }
  events.finish(report.status());
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

}  // namespace ferry
