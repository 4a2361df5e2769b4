#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "platform/device/resource_owner.h"

namespace ferry {

// Owns contiguous bytes of a device's memory, 256-byte aligned, of undefined
// content.
//
// All work that uses it must have ended, and the host must know that (it has
// synchronized), before it is freed.
//
// Move-only. Not thread-safe; what it holds may be used by any thread. The
// device must outlive it.
class DeviceArena {
 public:
  // Holds nothing.
  DeviceArena() = default;
  // Devices make arenas; see Device::allocate().
  DeviceArena(ResourceOwner* owner, void* data, int64_t bytes)
      : owner_(owner), data_(data), bytes_(bytes) {}
  ~DeviceArena() { reset(); }

  DeviceArena(DeviceArena&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceArena& operator=(DeviceArena&& other) noexcept {
    if (this != &other) {
      reset();
      owner_ = std::exchange(other.owner_, nullptr);
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }

  // An address of the device: the host neither reads nor writes there.
  char* data() const { return static_cast<char*>(data_); }
  int64_t bytes() const { return bytes_; }

  // Frees the memory and holds nothing, also when it returns an error: that
  // the device found work that still used it.
  [[nodiscard]] absl::Status free() {
    if (owner_ == nullptr) return absl::OkStatus();
    bytes_ = 0;
    return std::exchange(owner_, nullptr)
        ->free_device(std::exchange(data_, nullptr));
  }

 private:
  void reset() {
    if (ResourceOwner* const owner = owner_; owner != nullptr) {
      owner->keep_error(free());
    }
  }

  ResourceOwner* owner_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace ferry
