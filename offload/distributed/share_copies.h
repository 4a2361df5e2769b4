#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "offload/block_image.h"
#include "offload/stream_timer.h"
#include "platform/base/mutex.h"
#include "platform/device/device.h"
#include "platform/device/event.h"
#include "platform/device/stream.h"
#include "platform/device/stream_lease.h"

namespace ferry {

// Brings this rank's shares of blocks to its device, where gathers read them:
// through small slots that take turns, so that the next share is copied while
// one is gathered.
//
//   copy stream     wait gathered[k-2] · copy share k · record copied[k]
//   gather stream   wait copied[k] · (gather k) · record gathered[k]
//
// Ownership: owns its stream and events; refers to the device, and to device
//   memory, which outlive it.
// Threads: PassEngine's transport thread, but for stats(): any thread.
// Errors: the device's.
class ShareCopies {
 public:
  static constexpr size_t kSlots = 2;

  struct Stats {
    int64_t h2d_bytes = 0;
    // Of the shares of all ranks that are gathered with these.
    int64_t gathered_bytes = 0;
    // As in OffloadStats.
    int64_t timed_h2d_bytes = 0;
    absl::Duration h2d_time;
  };

  explicit ShareCopies(Device& device) : device_(device) {}

  // Before anything else. `data` has room for kSlots shares.
  absl::Status reserve(char* data, int64_t share_bytes) EXCLUDES_LOCK(mutex_);

  // Whether the share of the coming gather is copied, or being copied.
  bool is_copied() const { return is_copied_; }
  // Copies it. REQUIRES: it is not.
  absl::Status copy(const BlockImage& image) EXCLUDES_LOCK(mutex_);
  // The coming gather is what `stream` is given between these two calls; it
  // reads from share(). REQUIRES: is_copied().
  absl::Status begin_gather(Stream stream);
  absl::Status end_gather(Stream stream);
  const char* share() const { return slots_[current_].data; }

  // Blocks until the shares of all gathers that were given have been copied,
  // and says whether that went well; or until they were gathered, whose success
  // is the group's to tell. FAILED_PRECONDITION: there was none.
  absl::Status await_copies();
  absl::Status await_gathers();

  // Of what has ended by now.
  Stats stats() EXCLUDES_LOCK(mutex_);

 private:
  struct Slot {
    char* data = nullptr;
    Event copied;
    Event gathered;
    // Whether gathered is to be waited for.
    bool was_used = false;
  };

  // Of the last gather.
  const Slot& last() const { return slots_[(current_ + kSlots - 1) % kSlots]; }

  Device& device_;
  StreamLease stream_;
  std::array<Slot, kSlots> slots_;
  // That of the coming gather, and whether its share was copied.
  size_t current_ = 0;
  bool is_copied_ = false;

  Mutex mutex_;
  // Counters only; the timer has the times.
  Stats stats_ GUARDED_BY(mutex_);
  StreamTimer timer_ GUARDED_BY(mutex_);
};

}  // namespace ferry
