#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ferry/v1/generation_service.pb.h"
#include "server/core/job.h"
#include "server/core/rank.h"

namespace ferry {

// Takes generations in, keeps them in the bounded queue and runs them on the
// ranks that are ready: what the gRPC services and the supervisor talk to.
//
// (Sketch of the seam. The owner of server/core may split it into registry,
// queue and scheduler classes behind this facade.)
//
// Threads: thread-safe.
class GenerationManager {
 public:
  // Validates everything at once, applies the admission rules (queue bounds,
  // draining, pipeline state, deadline) and queues the job.
  // `deadline` is monotonic (Clock::monotonic), infinite when the client set
  // none. With request.validate_only the job is returned unqueued, in
  // STATE_UNSPECIFIED, as an effective spec only.
  absl::StatusOr<std::shared_ptr<Job>> submit(
      const v1::GenerateRequest& request, absl::Duration deadline);

  // NOT_FOUND with JOB_NOT_FOUND or JOB_EXPIRED.
  absl::StatusOr<std::shared_ptr<Job>> find(const std::string& name) const;
  // Newest first, without specs and outputs; pages end at page_size or 512 KiB.
  absl::StatusOr<v1::ListJobsResponse> list(
      const v1::ListJobsRequest& request) const;
  // Idempotent.
  absl::StatusOr<v1::Job> cancel(const std::string& name);

  // The supervisor adds a rank once its group is ready, and removes it when the
  // group is lost or stops; remove_rank() blocks until the rank runs nothing
  // (REQUIRES: its run() returns soon, because its process is gone or idle).
  void add_rank(const std::string& pipeline, std::shared_ptr<Rank> rank);
  void remove_rank(const std::string& pipeline,
                   const std::shared_ptr<Rank>& rank);
  // Ends all queued jobs of a pipeline that will not come back.
  void fail_queued(const std::string& pipeline, const absl::Status& error);

  // Draining: from now on submit() gives UNAVAILABLE/SERVER_DRAINING, queued
  // jobs end with it, running ones go on.
  void begin_drain();
  // Blocks until nothing runs or the timeout has passed; returns whether
  // nothing runs.
  bool wait_idle(absl::Duration timeout);
  // Ends every running job with `error`.
  void cancel_all(const absl::Status& error);

  int queued() const;
  int running() const;
};

}  // namespace ferry
