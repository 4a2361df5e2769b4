#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "platform/device/owned_bytes.h"
#include "platform/device/resource_owner.h"

namespace ferry {

// A scope in which the host may touch bytes of a HostArena: fill block images,
// or hand them out as ordinary tensors. Outside of such a scope the bytes
// belong to the device's copies, and a device that can makes them unreadable.
// Scopes may overlap.
//
// The host must not write while copies of the range run, nor read while copies
// into it do.
//
// Move-only. Not thread-safe. The arena must outlive it.
class HostAccess {
 public:
  // No access.
  HostAccess() = default;
  ~HostAccess() { reset(); }

  HostAccess(HostAccess&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)),
        kind_(other.kind_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  HostAccess& operator=(HostAccess&& other) noexcept {
    if (this != &other) {
      reset();
      owner_ = std::exchange(other.owner_, nullptr);
      kind_ = other.kind_;
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }

  // Writable with AccessKind::kWrite only.
  char* data() const { return static_cast<char*>(data_); }
  int64_t bytes() const { return bytes_; }

  // Ends the access, also when it returns an error: that a copy ran into it.
  [[nodiscard]] absl::Status end() {
    if (owner_ == nullptr) return absl::OkStatus();
    return std::exchange(owner_, nullptr)
        ->end_host_access(kind_, std::exchange(data_, nullptr),
                          std::exchange(bytes_, 0));
  }

 private:
  friend class HostArena;
  HostAccess(ResourceOwner* owner, AccessKind kind, void* data, int64_t bytes)
      : owner_(owner), kind_(kind), data_(data), bytes_(bytes) {}

  void reset() {
    if (ResourceOwner* const owner = owner_; owner != nullptr) {
      owner->keep_error(end());
    }
  }

  ResourceOwner* owner_ = nullptr;
  AccessKind kind_ = AccessKind::kRead;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Owns contiguous host memory that a device copies from and to without the
// host's help (CUDA: page-locked): the home of block images. Page-aligned.
// Devices make arenas; see Device::allocate_host() and map_host_file(). data()
// is what copies are given; the host touches the bytes inside a HostAccess
// only.
//
// Copies that use it must have ended, and the host must know that, and no
// HostAccess may be left, before it is freed.
class HostArena : public OwnedBytes<&ResourceOwner::free_host> {
 public:
  using OwnedBytes::OwnedBytes;

  // Opens `bytes` bytes from `offset` to the host. INVALID_ARGUMENT: they are
  // not inside of the arena. PERMISSION_DENIED: a write of a mapped file.
  // FAILED_PRECONDITION: the device found a copy that may still run.
  absl::StatusOr<HostAccess> access(AccessKind kind, int64_t offset,
                                    int64_t bytes) const {
    if (offset < 0 || bytes < 0 || offset > this->bytes() - bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "host access: ", bytes, " bytes from ", offset,
          " are not inside of an arena of ", this->bytes(), " bytes"));
    }
    absl::Status status =
        owner()->begin_host_access(kind, data() + offset, bytes);
    if (!status.ok()) return status;
    return HostAccess(owner(), kind, data() + offset, bytes);
  }
};

}  // namespace ferry
