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
  // Bytes of host arenas in use, by the way that the device reaches them.
  struct HostArenas {
    // By itself: page-locked memory.
    int64_t pinned_bytes = 0;
    // By itself, in the pages of a mapped file.
    int64_t mapped_bytes = 0;
    // Through staging buffers, since they could not be page-locked.
    int64_t staged_bytes = 0;
  };

  Memory device;
  // Arenas in host memory, mapped files not included.
  Memory host;
  // What the device has no two ways for, it does not tell.
  HostArenas host_arenas;
  Copies host_to_device;
  Copies device_to_host;
  Copies device_to_device;
  // Of those above, the ones that blocked the host for lack of an arena.
  Copies pageable;
  // Of those above, the ones that went through staging buffers.
  Copies staged;
};

}  // namespace ferry
