#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace ferry {

// Host memory that the process can still take.
struct HostMemoryLeft {
  int64_t available_bytes = std::numeric_limits<int64_t>::max();
  // What limits it, such as "MemAvailable"; for errors.
  std::string limited_by = "nothing";
};

// Asked whenever weights are about to be packed. Unset: nothing limits.
using HostMemoryQuery = std::function<HostMemoryLeft()>;

}  // namespace ferry
