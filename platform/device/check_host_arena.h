#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ferry {

// What no device makes a HostArena of: INVALID_ARGUMENT, with the label.

// As Device::allocate_host() takes it.
absl::Status check_host_arena(int64_t bytes, absl::string_view label);

// As Device::map_host_file() takes it.
absl::Status check_host_file(int fd, int64_t offset, int64_t bytes,
                             absl::string_view label);

}  // namespace ferry
