#pragma once

#include <cstdint>

namespace ferry {

// What a device was asked for since it was made. Bytes of arenas are those
// that count against the device's or the host's memory, granularity included.
struct DeviceStats {
  struct Memory {
    int64_t bytes_in_use = 0;
    int64_t bytes_peak = 0;
    // Calls that allocated.
    int64_t allocations = 0;
  };
  struct Copies {
    int64_t count = 0;
    int64_t bytes = 0;
  };

  Memory device;
  // Arenas in host memory, mapped files not included.
  Memory host;
  Copies host_to_device;
  Copies device_to_host;
  Copies device_to_device;
  // Of those above, the ones that blocked the host for lack of an arena.
  Copies pageable;
};

}  // namespace ferry
