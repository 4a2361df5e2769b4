#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "platform/os/unique_fd.h"

namespace ferry {

// A TCP socket that has a port of its own and does not listen yet: whoever
// inherits it may, and others can be told the address before that.
struct BoundSocket {
  UniqueFd fd;
  // HOST:PORT.
  std::string address;
};

// Binds one to a free port of 127.0.0.1; exec closes it. Errors: the system
// refused it.
absl::StatusOr<BoundSocket> bind_to_loopback();

}  // namespace ferry
