#pragma once

#include <cstdint>

namespace ferry {

// Memory of a device, in bytes.
struct MemoryInfo {
  // What an allocation can get now.
  int64_t free_bytes = 0;
  int64_t total_bytes = 0;
};

}  // namespace ferry
