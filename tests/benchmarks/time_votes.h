#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "platform/distributed/host_communicator.h"

namespace ferry {

// How long each of many votes takes: from when the last rank comes to it until
// the last one knows the result. All ranks of the group call it, processes of
// one host; they come at the same set times, and rest in between, as they do
// between the passes of a request.
absl::StatusOr<std::vector<absl::Duration>> time_votes(
    HostCommunicator& communicator);

}  // namespace ferry
