#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"

namespace ferry {

// Device memory; when there is too little, LibTorch's cache is emptied and it
// is tried once more.
absl::StatusOr<DeviceArena> allocate_on_device(Device& device, int64_t bytes,
                                               absl::string_view label);

}  // namespace ferry
