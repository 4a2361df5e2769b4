#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "platform/distributed/store.h"

namespace ferry {

// Gathers shares of blocks with another process, through the communicator of
// the worker's simulated device, and in turn does the same in a bare loop of
// messages over Gloo. Returns for each round how many times the bandwidth of
// the loop the gathers have. Both ranks call it. May throw what Gloo throws.
absl::StatusOr<std::vector<double>> compare_gathers(Store& store, int rank);

}  // namespace ferry
