#include "offload/allocate_on_device.h"

#include "absl/status/status.h"

namespace ferry {

absl::StatusOr<DeviceArena> allocate_on_device(Device& device, int64_t bytes,
                                               absl::string_view label) {
  auto arena = device.allocate(bytes, label);
  if (!absl::IsResourceExhausted(arena.status())) return arena;
  device.empty_cache();
  return device.allocate(bytes, label);
}

}  // namespace ferry
