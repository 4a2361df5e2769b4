#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace ferry {

// INVALID_ARGUMENT unless `size` ranks can gather `bytes` bytes of each.
[[nodiscard]] absl::Status check_gather_size(int64_t bytes, int size);

}  // namespace ferry
