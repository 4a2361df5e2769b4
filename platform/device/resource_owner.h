#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "platform/device/stream.h"

namespace ferry {

enum class AccessKind { kRead, kWrite };

// What leases, events, arenas and host accesses give back to the device that
// made them. Devices implement it; only those handles call it.
//
// Threads: thread-safe.
// Errors: a destructor can return none. What it would have returned is kept by
// the device and comes out of its next synchronize().
class ResourceOwner {
 public:
  virtual ~ResourceOwner() = default;

  virtual void release_stream(Stream stream) = 0;
  virtual void destroy_event(int64_t event) = 0;
  // The memory is gone, whatever is returned.
  virtual absl::Status free_device(void* data) = 0;
  virtual absl::Status free_host(void* data) = 0;
  virtual absl::Status begin_host_access(AccessKind kind, void* data,
                                         int64_t bytes) = 0;
  // The access has ended, whatever is returned.
  virtual absl::Status end_host_access(AccessKind kind, void* data,
                                       int64_t bytes) = 0;
  // Keeps an error that nobody was there to receive; OK is passed over.
  virtual void keep_error(const absl::Status& status) = 0;
};

}  // namespace ferry
