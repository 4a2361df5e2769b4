#pragma once

#include <utility>

#include "platform/base/check.h"
#include "platform/device/resource_owner.h"
#include "platform/device/stream.h"

namespace ferry {

// A stream that its holder alone gives work to. It goes back to the device
// when the holder drops it; work that it was given still runs to its end.
//
// Move-only. Not thread-safe; the stream itself may be used by any thread.
// The device must outlive it.
class StreamLease {
 public:
  // Holds nothing.
  StreamLease() = default;
  // Devices make leases; see Device::acquire_stream().
  StreamLease(ResourceOwner* owner, Stream stream)
      : owner_(owner), stream_(stream) {}
  ~StreamLease() { reset(); }

  StreamLease(StreamLease&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), stream_(other.stream_) {}
  StreamLease& operator=(StreamLease&& other) noexcept {
    if (this != &other) {
      reset();
      owner_ = std::exchange(other.owner_, nullptr);
      stream_ = other.stream_;
    }
    return *this;
  }

  // REQUIRES: it holds a stream.
  Stream get() const {
    FERRY_CHECK(owner_ != nullptr);
    return stream_;
  }

  void reset() {
    if (owner_ != nullptr) owner_->release_stream(stream_);
    owner_ = nullptr;
  }

 private:
  ResourceOwner* owner_ = nullptr;
  Stream stream_;
};

}  // namespace ferry
