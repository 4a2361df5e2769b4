#pragma once

#include "platform/device/device.h"
#include "platform/device/stream.h"

namespace ferry {

// Makes `stream` the current stream of this thread for a scope. Guards nest;
// they end in the reverse order, on the thread that made them.
class StreamGuard {
 public:
  // `device` must outlive the guard.
  StreamGuard(Device& device, Stream stream)
      : device_(device), previous_(device.exchange_current_stream(stream)) {}
  ~StreamGuard() { device_.exchange_current_stream(previous_); }
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Device& device_;
  const Stream previous_;
};

}  // namespace ferry
