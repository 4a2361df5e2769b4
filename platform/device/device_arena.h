#pragma once

#include "platform/device/owned_bytes.h"
#include "platform/device/resource_owner.h"

namespace ferry {

// Owns contiguous bytes of a device's memory, 256-byte aligned, of undefined
// content. Devices make arenas; see Device::allocate(). data() is an address of
// the device: the host neither reads nor writes there.
//
// All work that uses it must have ended, and the host must know that (it has
// synchronized), before it is freed.
class DeviceArena : public OwnedBytes<&ResourceOwner::free_device> {
 public:
  using OwnedBytes::OwnedBytes;
};

}  // namespace ferry
