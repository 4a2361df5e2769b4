#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ferry/worker/v1/worker_service.grpc.pb.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "platform/base/mutex.h"
#include "server/core/rank.h"

namespace ferry {

// A rank in another process, over gRPC.
//
// run() returns an error of gRPC's own, such as CANCELLED, only when the rank
// is free again, and WORKER_LOST only when the supervisor has said that the
// rank is lost (or after a few seconds, should it never say so): whoever sees
// the error sees a pipeline that is not READY any more.
//
// Ownership: the channel stays open as long as the rank lives.
// Threads: thread-safe. Errors: as in rank.h.
class GrpcRank final : public Rank {
 public:
  // `pipeline` is the resource name, for errors.
  GrpcRank(std::string pipeline, std::shared_ptr<grpc::Channel> channel);

  absl::StatusOr<worker::v1::GenerationSummary> run(
      const worker::v1::RunGenerationRequest& request,
      RankEvents& events) override EXCLUDES_LOCK(mutex_);

  void cancel() override EXCLUDES_LOCK(mutex_);

  bool makes_passes_with_others() const override { return with_others_; }
  void set_makes_passes_with_others(bool with_others) {
    with_others_ = with_others;
  }

  // What the rank did together with others of late. At any time, also while it
  // loads or runs. DEADLINE_EXCEEDED: it did not answer by then; UNAVAILABLE:
  // it is gone.
  absl::StatusOr<worker::v1::GetFlightRecordsResponse> flight_records(
      std::chrono::system_clock::time_point deadline);

  // The process or its group is lost; `error` is what run() returns from now
  // on, also one that is in progress, which ends at once. The first call
  // counts. REQUIRES: it is a worker_lost().
  void set_lost(const absl::Status& error) EXCLUDES_LOCK(mutex_);

 private:
  // How far a call has come, for cancel() and set_lost().
  enum class Phase { kIdle, kGenerating, kWaitingForIdle };

  // Makes `context` the one that set_lost() ends, and cancel() too while
  // generating; nullptr with kIdle.
  void enter(Phase phase, grpc::ClientContext* context) EXCLUDES_LOCK(mutex_);
  void enter_locked(Phase phase, grpc::ClientContext* context)
      REQUIRES_LOCK(mutex_);
  // The same for a run that begins. REQUIRES: the phase is kIdle.
  void begin_run(grpc::ClientContext& context) EXCLUDES_LOCK(mutex_);
  // Blocks until the worker is free. False: it is lost.
  bool wait_until_idle() EXCLUDES_LOCK(mutex_);
  absl::Status lost_error() EXCLUDES_LOCK(mutex_);

  const std::string pipeline_;
  const std::unique_ptr<worker::v1::WorkerService::Stub> stub_;
  std::atomic<bool> with_others_ = false;

  Mutex mutex_;
  // Signalled by set_lost().
  CondVar lost_;
  Phase phase_ GUARDED_BY(mutex_) = Phase::kIdle;
  grpc::ClientContext* context_ GUARDED_BY(mutex_) = nullptr;
  // OK: it is not.
  absl::Status lost_error_ GUARDED_BY(mutex_);
};

}  // namespace ferry
