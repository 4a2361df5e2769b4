#pragma once

#include <cstdint>
#include <utility>

#include "platform/base/check.h"
#include "platform/device/resource_owner.h"

namespace ferry {

// A point in a stream's work that other streams, and the host, can wait for.
//
// It is *recorded* when a stream was told to (Device::record), and *complete*
// when all work that the stream had been given before has ended. It may be
// recorded any number of times, on any stream. A wait captures the record that
// is the latest when the wait is called: a later one does not change what was
// captured. To wait for an event that was never recorded is an error where the
// device can tell (CUDA passes over it in silence).
//
// Move-only; owns the device's event. Not thread-safe: a record and a wait of
// one event that are called at the same time are a race of their callers.
// The device must outlive it.
class Event {
 public:
  // No event.
  Event() = default;
  // Devices make events; see Device::create_event().
  Event(ResourceOwner* owner, int64_t id) : owner_(owner), id_(id) {}
  ~Event() { reset(); }

  Event(Event&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), id_(other.id_) {}
  Event& operator=(Event&& other) noexcept {
    if (this != &other) {
      reset();
      owner_ = std::exchange(other.owner_, nullptr);
      id_ = other.id_;
    }
    return *this;
  }

  explicit operator bool() const { return owner_ != nullptr; }
  // The business of the device. REQUIRES: it is an event.
  int64_t id() const {
    FERRY_CHECK(owner_ != nullptr);
    return id_;
  }

  // Work that waits for it still does.
  void reset() {
    if (owner_ != nullptr) owner_->destroy_event(id_);
    owner_ = nullptr;
  }

 private:
  ResourceOwner* owner_ = nullptr;
  int64_t id_ = 0;
};

}  // namespace ferry
