#pragma once

#include "absl/status/statusor.h"
#include "platform/os/unique_fd.h"

namespace ferry {

// Two connected Unix stream sockets.
struct SocketPair {
  UniqueFd first;
  UniqueFd second;
};

// Makes a pair whose ends do not block and are closed by exec. Fails with
// RESOURCE_EXHAUSTED when no descriptor is left.
absl::StatusOr<SocketPair> make_socket_pair();

}  // namespace ferry
