#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "offload/distributed/pass_engine.h"
#include "offload/distributed/rank_group.h"

namespace ferry {

// How long the blocks of a pass take to run, all rings' of `pass_bytes`
// together, once their weights are there. `run` makes a small request, twice:
// the first time whatever runs there may have to wake up.
//
// All ranks call it, while nothing else runs, and get the same: the least of
// what they measured, which nothing has disturbed; zero where no block ran. All
// have run then, and no pass is made any more. Errors: of all ranks alike, that
// one of them could not run, or that the group has failed.
// REQUIRES: the engine is the group's, which has a communicator for the choice.
absl::StatusOr<absl::Duration> measure_compute(
    RankGroup& group, PassEngine& engine, int64_t pass_bytes,
    absl::FunctionRef<absl::Status()> run);

}  // namespace ferry
