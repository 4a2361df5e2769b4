#pragma once

#include "absl/status/statusor.h"
#include "ferry/worker/v1/worker_service.pb.h"
#include "server/core/job.h"
#include "server/core/rank.h"

namespace ferry {

// Runs a job on a rank and blocks until it has ended. The rank's events go into
// the job. From then on Job::request_cancel reaches the rank, and never a later
// run of it, whenever that call began.
//
// Returns what the rank returned; the job is not finished by it.
// REQUIRES: job.start() returned true; the rank runs nothing (which its run()
// checks).
absl::StatusOr<worker::v1::GenerationSummary> run_on_rank(Job& job, Rank& rank);

}  // namespace ferry
