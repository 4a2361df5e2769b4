#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ferry {

// Where a server listens: HOST:PORT, [IPV6]:PORT or unix:PATH.
//
// Threads: free functions without state.

// `address` with `port` in place of its own; a Unix address stays as it is.
std::string with_bound_port(absl::string_view address, int port);

// Tells why nobody could listen on `address` now, by trying; OK when it would
// work. For a Unix socket: whether someone answers there, since gRPC takes the
// path over from a server that is alive.
absl::Status try_to_listen(absl::string_view address);

}  // namespace ferry
