#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ferry/v1/job.pb.h"
#include "ferry/v1/job_event.pb.h"
#include "ferry/worker/v1/worker_service.pb.h"

namespace ferry {

// Takes the events of a generation that runs on a rank. Called on the thread
// that called Rank::run; must not block on a client.
class RankEvents {
 public:
  virtual ~RankEvents() = default;

  virtual void on_progress(v1::Progress progress) = 0;
  virtual void on_preview(v1::Preview preview) = 0;
  // A piece of an output, in order of index and offset.
  virtual void on_output_chunk(v1::OutputChunk chunk) = 0;
};

// One rank of a worker group that is ready: what the scheduler may ask of it.
//
// Implemented by server/ipc over gRPC. Thread-safe.
class Rank {
 public:
  virtual ~Rank() = default;

  // Runs one generation and blocks until it has ended. When the process or
  // its group is lost: UNAVAILABLE with reason WORKER_LOST; the rank is useless
  // from then on and must be given no other job, since it is removed a moment
  // later only. Errors of the worker come through as they are.
  // No other run() of this rank may be in progress: what implements it ends the
  // process if one is.
  virtual absl::StatusOr<worker::v1::GenerationSummary> run(
      const worker::v1::RunGenerationRequest& request, RankEvents& events) = 0;

  // Asks the running generation, if any, to end at its next step; its run()
  // returns CANCELLED then. Returns at once.
  virtual void cancel() = 0;

  // Whether it makes each pass over the blocks together with the other ranks of
  // its group, so that the slowest of them paces all (ARCHITECTURE.md, "Life of
  // a pass"). Known from the group's first wave on that no load asked for;
  // false before that.
  virtual bool makes_passes_with_others() const = 0;
};

}  // namespace ferry
