#pragma once

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "offload/distributed/pass_engine.h"

namespace ferry {

// What came of passes that all ranks tried; the same on all of them.
struct TriedPasses {
  // OK, or that some rank could not run, and why. The group is well all the
  // same.
  absl::Status status;
  // How long the blocks of a pass take to run, all rings' together, once their
  // weights are there: the least of what the ranks measured, which nothing has
  // disturbed. Zero where no block ran, or nothing was measured.
  absl::Duration compute;
};

// Finds out whether requests can be served by passes: `run` makes a small one.
// With `pass_bytes`, those of a whole pass, it makes another one, to measure
// how long blocks run: the first time whatever runs there may have to wake up.
//
// All ranks call it, while nothing else runs. All have run then, and none asks
// for a pass any more.
// Errors: of all ranks alike, that the group, or the device of a rank, has
// failed.
// REQUIRES: the engine's group has a communicator for the choice.
absl::StatusOr<TriedPasses> try_passes(PassEngine& engine,
                                       std::optional<int64_t> pass_bytes,
                                       absl::FunctionRef<absl::Status()> run);

}  // namespace ferry
