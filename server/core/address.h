#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ferry {

// Checks the form of an address to listen on: HOST:PORT, [IPV6]:PORT or
// unix:PATH. Whether it can be bound shows when it is.
//
// Returns INVALID_ARGUMENT whose message says what would be right.
// Threads: free function without state.
absl::Status check_address(absl::string_view address);

}  // namespace ferry
