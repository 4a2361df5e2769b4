#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "platform/base/mutex.h"
#include "platform/device/cuda/cuda_api.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/cuda/cuda_errors.h"
#include "platform/device/device_stats.h"
#include "platform/device/mapping.h"

namespace ferry {

// Host arenas of a CUDA device: exact-size files called "ferry-host", on the
// device's NUMA node, populated by several threads and then registered with
// CUDA, piece by piece; or mapped files, registered read-only where the device
// can, and as any other memory where it cannot and the file is open for
// writing. (LibTorch's pinned allocator rounds up to powers of two.)
//
// What CUDA does not register, the first time with a line in the log, is an
// arena all the same: its copies are staged.
//
// Threads: thread-safe.
class CudaHostMemory {
 public:
  // Where bytes lie.
  struct Place {
    enum Kind {
      // In no arena.
      kElsewhere,
      // In an arena that is registered.
      kPinned,
      // In an arena that is not.
      kStaged,
      // They begin in an arena, and end outside of it.
      kAcross,
    };
    Kind kind = kElsewhere;
    bool is_file = false;
    // From the first byte to the end of what was registered at once.
    int64_t piece_bytes = 0;
  };

  // What the device can do.
  struct Abilities {
    bool can_register = true;
    bool can_register_read_only = true;
    std::optional<int> numa_node;
  };

  // `api` and `errors` must outlive it.
  CudaHostMemory(CudaApi* api, CudaErrors* errors, CudaDeviceOptions options,
                 Abilities abilities)
      : api_(*api),
        errors_(*errors),
        options_(std::move(options)),
        abilities_(abilities) {}

  // RESOURCE_EXHAUSTED: the system gives no more. `bytes` is positive.
  absl::StatusOr<void*> allocate(int64_t bytes, absl::string_view label)
      EXCLUDES_LOCK(mutex_);
  // INVALID_ARGUMENT: the file has no such bytes.
  absl::StatusOr<void*> map_file(int fd, int64_t offset, int64_t bytes,
                                 absl::string_view label) EXCLUDES_LOCK(mutex_);
  // Returns the first error of CUDA; the memory is gone whatever happens.
  // REQUIRES: `data` is an arena's.
  absl::Status free(void* data) EXCLUDES_LOCK(mutex_);

  Place find(const void* data, int64_t bytes) const EXCLUDES_LOCK(mutex_);
  DeviceStats::Memory stats() const EXCLUDES_LOCK(mutex_);
  DeviceStats::HostArenas arenas() const EXCLUDES_LOCK(mutex_);

 private:
  struct Arena {
    Mapping mapping;
    // As asked for.
    int64_t bytes = 0;
    bool is_file = false;
    // Mapped so that it could be written when it was registered.
    bool is_writable = false;
    bool is_pinned = false;
  };

  void pin(Arena* arena, absl::string_view label);
  // Registers all pieces, or none.
  absl::Status register_pieces(const Mapping& mapping, unsigned flags);
  absl::Status unregister_pieces(const Mapping& mapping, int64_t bytes);
  void say_unpinned(absl::string_view label, absl::string_view reason);
  void* keep(Arena arena) EXCLUDES_LOCK(mutex_);
  void count(const Arena& arena, int64_t sign) REQUIRES_LOCK(mutex_);

  // Constant after construction.
  CudaApi& api_;
  CudaErrors& errors_;
  const CudaDeviceOptions options_;
  const Abilities abilities_;

  std::atomic<bool> said_unpinned_{false};
  mutable Mutex mutex_;
  // By their address.
  std::map<const char*, Arena> arenas_ GUARDED_BY(mutex_);
  DeviceStats::Memory stats_ GUARDED_BY(mutex_);
  DeviceStats::HostArenas kinds_ GUARDED_BY(mutex_);
};

}  // namespace ferry
