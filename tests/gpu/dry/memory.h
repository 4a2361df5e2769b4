#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "platform/base/mutex.h"

namespace ferry::dry {

// The memory of the devices, in host memory that holds zeros until something
// is copied there.
//
// A device's addresses are mapped without access, so that a program that reads
// device memory on the host is killed, as with a GPU. The bytes are mapped a
// second time, for the copies.
//
// Threads: thread-safe.
class DeviceMemory {
 public:
  struct Place {
    // Of the device whose address it is; -1: of none.
    int device = -1;
    // Bytes from there to the end of its allocation; 0: there is none.
    size_t room = 0;
    // Where the host finds the bytes.
    char* bytes = nullptr;
  };

  DeviceMemory(int devices, size_t bytes_each);

  // cudaErrorMemoryAllocation, when no range is free that is large enough.
  cudaError_t allocate(int device, size_t bytes, void** data)
      EXCLUDES_LOCK(mutex_);
  // The device of the allocation that begins there and is gone now; -1: none.
  int free(void* data) EXCLUDES_LOCK(mutex_);
  Place find(const void* data) const EXCLUDES_LOCK(mutex_);
  size_t free_bytes(int device) const EXCLUDES_LOCK(mutex_);
  size_t total_bytes() const { return bytes_each_; }
  size_t allocations() const EXCLUDES_LOCK(mutex_);

 private:
  struct Arena {
    char* addresses = nullptr;
    char* bytes = nullptr;
    int fd = -1;
    std::map<size_t, size_t> used;  // Offset and size.
    size_t used_bytes = 0;
  };

  bool map(Arena* arena) const;
  int device_of(const char* data) const REQUIRES_LOCK(mutex_);

  const size_t bytes_each_;
  mutable Mutex mutex_;
  std::vector<Arena> arenas_ GUARDED_BY(mutex_);
};

// Host memory that CUDA has page-locked: its own, and what was registered.
//
// Threads: thread-safe.
class HostMemory {
 public:
  struct Place {
    enum Kind {
      kPageable,
      kPinned,
      // Begins in one registration and ends outside of it, or the reverse.
      kAcross,
    };
    Kind kind = kPageable;
    bool is_read_only = false;
  };

  explicit HostMemory(bool registers_read_only)
      : registers_read_only_(registers_read_only) {}

  cudaError_t allocate(size_t bytes, void** data) EXCLUDES_LOCK(mutex_);
  // False when allocate() did not give it.
  bool free(void* data) EXCLUDES_LOCK(mutex_);

  // cudaSuccess, or an error and the rule that was broken.
  cudaError_t add(void* data, size_t bytes, unsigned flags, const char** rule)
      EXCLUDES_LOCK(mutex_);
  cudaError_t remove(void* data, const char** rule) EXCLUDES_LOCK(mutex_);

  Place find(const void* data, size_t bytes) const EXCLUDES_LOCK(mutex_);
  size_t registrations() const EXCLUDES_LOCK(mutex_);
  // Of the range that begins there; 0 for none.
  size_t registered_bytes(const void* data) const EXCLUDES_LOCK(mutex_);

 private:
  struct Range {
    size_t bytes = 0;
    bool is_allocated = false;
    bool is_read_only = false;
  };

  const bool registers_read_only_;
  mutable Mutex mutex_;
  std::map<const char*, Range> ranges_ GUARDED_BY(mutex_);
};

// What the kernel says of a range of addresses: that all of it is mapped, and
// may be written.
struct PageAccess {
  bool is_mapped = false;
  bool is_writable = false;
};
PageAccess page_access(const void* data, size_t bytes);

}  // namespace ferry::dry
