#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "platform/device/mapping.h"
#include "platform/device/memory_info.h"

namespace ferry {

// What memory holds that nobody may read: NaN in every floating type of IEEE,
// bfloat16 and fp8, -1 in integers.
void fill_with_poison(void* data, int64_t bytes);

// The memory of a simulated device: files called "ferry-device", of which
// arenas are parts. An allocation succeeds exactly when as many bytes are
// free; it never fails because they are scattered.
//
// Freed memory stays mapped, so that a use after free reads poison and does
// not end the process.
//
// Not thread-safe.
class DeviceMemory {
 public:
  // Allocations are rounded up to it, and aligned to it.
  static constexpr int64_t kGranularity = 256;

  struct Arena {
    char* data = nullptr;
    // As asked for.
    int64_t bytes = 0;
    std::string label;
  };

  // `poison`: fills memory that is allocated or freed.
  DeviceMemory(int64_t limit_bytes, bool poison)
      : limit_bytes_(limit_bytes), poison_(poison) {}

  // RESOURCE_EXHAUSTED says how much there is. `bytes` is positive.
  absl::StatusOr<void*> allocate(int64_t bytes, absl::string_view label);
  // REQUIRES: `data` is an arena's.
  void free(void* data);

  // The arena that all of these bytes lie in, or null. Valid until the next
  // allocation or free.
  const Arena* find(const void* data, int64_t bytes) const;
  // Whether the address is one of the device, in use or not.
  bool contains(const void* data) const;

  MemoryInfo info() const { return {limit_bytes_ - used_bytes_, limit_bytes_}; }

 private:
  struct Region {
    Mapping mapping;
    // Bytes by their offset. Neighbours are joined.
    std::map<int64_t, int64_t> holes;
  };

  absl::StatusOr<char*> place(int64_t bytes);

  // Constant after construction.
  int64_t limit_bytes_;
  bool poison_;

  int64_t used_bytes_ = 0;
  std::vector<Region> regions_;
  // By their address.
  std::map<const char*, Arena> arenas_;
};

}  // namespace ferry
