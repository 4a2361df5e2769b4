#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "platform/device/resource_owner.h"

namespace ferry {

// Owns bytes that a device gave out, and gives them back through `Free`: what
// DeviceArena and HostArena have in common.
//
// Move-only. Not thread-safe; what it holds may be used by any thread. The
// device must outlive it.
template <absl::Status (ResourceOwner::*Free)(void*)>
class OwnedBytes {
 public:
  // Holds nothing.
  OwnedBytes() = default;
  OwnedBytes(ResourceOwner* owner, void* data, int64_t bytes)
      : owner_(owner), data_(data), bytes_(bytes) {}
  ~OwnedBytes() { reset(); }

  OwnedBytes(OwnedBytes&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  OwnedBytes& operator=(OwnedBytes&& other) noexcept {
    if (this != &other) {
      reset();
      owner_ = std::exchange(other.owner_, nullptr);
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }

  char* data() const { return static_cast<char*>(data_); }
  int64_t bytes() const { return bytes_; }

  // Frees the memory and holds nothing, also when it returns an error: that
  // the device found work that still used it.
  [[nodiscard]] absl::Status free() {
    if (owner_ == nullptr) return absl::OkStatus();
    bytes_ = 0;
    ResourceOwner* const owner = std::exchange(owner_, nullptr);
    return (owner->*Free)(std::exchange(data_, nullptr));
  }

 protected:
  ResourceOwner* owner() const { return owner_; }

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
