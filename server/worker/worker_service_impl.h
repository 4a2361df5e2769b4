#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "ferry/worker/v1/worker_service.grpc.pb.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"
#include "server/worker/event_queue.h"
#include "server/worker/generation_slot.h"
#include "server/worker/loaded_pipeline.h"
#include "server/worker/rank_recorders.h"
#include "server/worker/step_thread.h"
#include "server/worker/wave_line.h"

namespace ferry {

// What ferryd asks of this rank.
//
//   kEmpty ──LoadPipeline──► kLoading ──► kLoaded
//                               └───────► kFailed
//
// A pipeline is loaded once in a process: after kFailed ferryd ends the
// process.
//
// Ownership: owns the pipeline, which is destroyed on the step thread.
// Threads: gRPC calls it on any thread. Calls that wait look for their
//   cancellation every few milliseconds, since the synchronous API calls nobody
//   back.
// REQUIRES at destruction: no call is in progress. (Whoever serves it destroys
//   the gRPC server first, which waits for calls; a check sees those that load
//   or generate.)
// Errors: what the loader and the pipeline report, as they report it;
//   FAILED_PRECONDITION for calls in the wrong state. Each carries a reason, by
//   which ferryd tells it from gRPC's own errors, that is, from the end of this
//   process. What met a device or a group that failed for good (kDeviceFailed,
//   kGroupFailed) gets no answer: the process ends, and ferryd starts others.
class WorkerServiceImpl final : public worker::v1::WorkerService::Service {
 public:
  // Ends the process. (If it does not, the error is the answer.)
  using ProcessEnder = std::function<void(const absl::Status& error)>;

  // `clock` must outlive the service. `end_process` runs on the step thread.
  WorkerServiceImpl(PipelineLoader loader, ProcessEnder end_process,
                    const Clock& clock);
  ~WorkerServiceImpl() override;

  grpc::Status LoadPipeline(
      grpc::ServerContext* context,
      const worker::v1::LoadPipelineRequest* request,
      worker::v1::LoadPipelineResponse* response) override;
  grpc::Status RunGeneration(
      grpc::ServerContext* context,
      const worker::v1::RunGenerationRequest* request,
      grpc::ServerWriter<worker::v1::RunGenerationResponse>* writer) override;
  grpc::Status WaitIdle(grpc::ServerContext* context,
                        const worker::v1::WaitIdleRequest* request,
                        worker::v1::WaitIdleResponse* response) override;
  grpc::Status Heartbeat(grpc::ServerContext* context,
                         const worker::v1::HeartbeatRequest* request,
                         worker::v1::HeartbeatResponse* response) override;
  grpc::Status GetFlightRecords(
      grpc::ServerContext* context,
      const worker::v1::GetFlightRecordsRequest* request,
      worker::v1::GetFlightRecordsResponse* response) override;
  grpc::Status JoinWaves(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<worker::v1::JoinWavesResponse,
                               worker::v1::JoinWavesRequest>* stream) override;

 private:
  enum class State { kEmpty, kLoading, kLoaded, kFailed };

  absl::Status load(const worker::v1::LoadPipelineRequest& request,
                    worker::v1::LoadPipelineResponse& response)
      EXCLUDES_LOCK(mutex_);
  absl::Status begin_load() EXCLUDES_LOCK(mutex_);
  absl::Status begin_waves() EXCLUDES_LOCK(mutex_);
  absl::Status begin_generation(const std::string& job) EXCLUDES_LOCK(mutex_);
  // Returns when the generation has ended, not before: the step thread uses the
  // queue. An error: it was ended, since nothing could be sent.
  absl::Status send_events(
      const grpc::ServerContext& context, EventQueue& events,
      grpc::ServerWriter<worker::v1::RunGenerationResponse>& writer);
  // On the step thread, these four. (What ends a thread's task, an exception
  // too, is a status.)
  void look_at(const absl::Status& status) const;
  absl::Status load_here(const worker::v1::LoadPipelineRequest& request,
                         worker::v1::LoadPipelineResponse& response);
  // Ends with the queue's end.
  void generate(const worker::v1::RunGenerationRequest& request,
                EventQueue& events);
  absl::Status generate_here(const worker::v1::RunGenerationRequest& request,
                             EventQueue& events);

  const PipelineLoader loader_;
  const ProcessEnder end_process_;
  GenerationSlot slot_;
  WaveLine waves_;
  RankRecorders recorders_;
  // Touched by the step thread only.
  std::unique_ptr<LoadedPipeline> loaded_;
  Mutex mutex_;
  State state_ GUARDED_BY(mutex_) = State::kEmpty;
  bool joined_waves_ GUARDED_BY(mutex_) = false;
  // Last: what it runs uses all of the above.
  StepThread step_thread_;
};

}  // namespace ferry
