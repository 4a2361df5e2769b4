#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ferry {

// A TCP address: a name or an address in numbers, without brackets, and a port.
struct HostPort {
  std::string host;
  uint16_t port = 0;

  // HOST:PORT or [IPV6]:PORT.
  std::string to_string() const;
};

// Reads HOST:PORT or [IPV6]:PORT. INVALID_ARGUMENT says what would be right.
// Threads: free function without state.
absl::StatusOr<HostPort> parse_host_port(absl::string_view text);

}  // namespace ferry
