#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/device/device_arena.h"
#include "platform/device/device_stats.h"
#include "platform/device/event.h"
#include "platform/device/host_arena.h"
#include "platform/device/memory_info.h"
#include "platform/device/resource_owner.h"
#include "platform/device/stream.h"
#include "platform/device/stream_lease.h"

namespace ferry {

enum class CopyKind { kHostToDevice, kDeviceToHost, kDeviceToDevice };

// Bytes to copy. The ranges do not overlap; each lies in one arena, or, on the
// host's side, in any memory.
struct Copy {
  CopyKind kind = CopyKind::kHostToDevice;
  void* destination = nullptr;
  const void* source = nullptr;
  int64_t bytes = 0;
};

// A device with memory of its own: what offloading needs of it.
//
// Work is given to streams, and the call returns before it is done. Streams
// are ordered by events only: nothing is implied, neither between streams nor
// between a stream and the host. Kernels are LibTorch's business; they run on
// the current stream of the thread that launches them. What the device cannot
// see of them, mark_access() and discard() tell it.
//
// A program that is right on one device is right on all: contracts are CUDA's,
// or stricter. The simulated device finds out who breaks them.
//
// Ownership: belongs to its Platform. Leases, events, arenas and accesses must
// be gone before it.
// Threads: thread-safe, where handles do not say otherwise.
// Cost: in the steady state no call allocates memory; calls marked "cheap"
// take a microsecond or less.
// Errors: RESOURCE_EXHAUSTED, no memory (or streams) left; INVALID_ARGUMENT,
// what no device could do; FAILED_PRECONDITION, work that is not ordered as it
// must be, or on memory that is not the device's; INTERNAL, the device failed:
// it stays failed, and every later call says so, but handles can still be given
// back. A call that returns an error has done nothing.
class Device : public ResourceOwner {
 public:
  // --- Memory

  virtual absl::StatusOr<MemoryInfo> memory_info() const = 0;
  // An allocation takes its bytes, rounded up to a multiple of this.
  virtual int64_t allocation_granularity() const = 0;
  // Device memory that libraries take for themselves once kernels run, beside
  // arenas and tensors. Who plans leaves it alone.
  virtual int64_t library_bytes() const = 0;
  // `label` names the arena in errors: "slot 1 of transformer". bytes > 0.
  virtual absl::StatusOr<DeviceArena> allocate(int64_t bytes,
                                               absl::string_view label) = 0;
  // Zero-filled.
  virtual absl::StatusOr<HostArena> allocate_host(int64_t bytes,
                                                  absl::string_view label) = 0;
  // `bytes` bytes of a file from `offset`, a multiple of the page size, as a
  // read-only arena; the file's pages stay shared. The caller keeps `fd`, and
  // may close it. The file must not shrink.
  virtual absl::StatusOr<HostArena> map_host_file(int fd, int64_t offset,
                                                  int64_t bytes,
                                                  absl::string_view label) = 0;
  // Gives memory that LibTorch's allocator caches back to the device.
  virtual void empty_cache() = 0;
  virtual DeviceStats stats() const = 0;

  // --- Whether it works

  // Cheap; does not wait. OK while it works. Work that fails may end without a
  // word: its events are complete, its bytes are what they were, and other
  // calls go on. Whoever relies on work that has ended asks here before he says
  // that it went well; so does synchronize() of the whole device.
  [[nodiscard]] virtual absl::Status status() = 0;

  // --- Streams

  // Cheap. The stream of kernels that this thread launches.
  virtual Stream current_stream() const = 0;
  // Returns the one before. Only StreamGuard calls it.
  virtual Stream exchange_current_stream(Stream stream) = 0;
  // `label` names the stream in errors and logs: "copy".
  virtual absl::StatusOr<StreamLease> acquire_stream(
      StreamKind kind, absl::string_view label) = 0;
  // Blocks until all work of the stream has ended.
  [[nodiscard]] virtual absl::Status synchronize(Stream stream) = 0;
  // Blocks until all work has ended. Returns the error of work that failed;
  // else, once, the first one that a handle's destructor met.
  [[nodiscard]] virtual absl::Status synchronize() = 0;

  // --- Events

  // `timed`: elapsed() may be asked for it, which costs a little.
  virtual absl::StatusOr<Event> create_event(bool timed) = 0;
  // Cheap.
  [[nodiscard]] virtual absl::Status record(const Event& event,
                                            Stream stream) = 0;
  // Cheap. Work that `stream` is given from now on starts after the event's
  // latest record is complete. The host does not wait, and learns nothing.
  [[nodiscard]] virtual absl::Status wait(Stream stream,
                                          const Event& event) = 0;
  // Cheap. Whether the latest record is complete.
  virtual absl::StatusOr<bool> query(const Event& event) = 0;
  // Blocks until the latest record is complete.
  [[nodiscard]] virtual absl::Status synchronize(const Event& event) = 0;
  // Cheap. Time between two records of timed events; nothing while one of them
  // is not complete. Other than by query(), the host learns a time only: work
  // that it gives from now on is not ordered after them.
  virtual absl::StatusOr<std::optional<absl::Duration>> elapsed(
      const Event& start, const Event& end) = 0;

  // --- Work

  // Cheap when the host's side lies in a HostArena. Copies from and to other
  // host memory block the host: from it until the bytes are read, to it until
  // they are there.
  [[nodiscard]] virtual absl::Status copy_async(Stream stream,
                                                const Copy& copy) = 0;
  // Cheap. Work that `stream` was given just before, or is given from now on
  // until the next call for these bytes, accesses them: call it when weights
  // are bound and again when they are unbound. The bytes lie in one
  // DeviceArena.
  [[nodiscard]] virtual absl::Status mark_access(Stream stream, AccessKind kind,
                                                 const void* data,
                                                 int64_t bytes) = 0;
  // Cheap. When the work that `stream` was given has ended, nobody needs the
  // content of these bytes of a DeviceArena any more. Call it before the event
  // that hands them on is recorded.
  [[nodiscard]] virtual absl::Status discard(Stream stream, void* data,
                                             int64_t bytes) = 0;

  // --- Proof that nothing is where it should not be

  // An error when kernels must not read these bytes: they are a host image,
  // other host memory, or freed. OK where the hardware would find out.
  [[nodiscard]] virtual absl::Status audit(const void* data,
                                           int64_t bytes) const = 0;
};

}  // namespace ferry
