#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "platform/base/mutex.h"

namespace ferry {

// Where a simulated device can be made to fail.
enum class FaultPoint {
  // RESOURCE_EXHAUSTED, as out of memory.
  kAllocate,
  kAllocateHost,
  kAcquireStream,
  // INTERNAL; the call has done nothing.
  kCreateEvent,
  kRecord,
  kWait,
  kCopy,
  kSynchronize,
  // The copy is accepted and fails while it runs: the device has failed, and
  // every later call says so.
  kCopyRun,
  // The copy is accepted and ends, but its bytes do not arrive: of all calls,
  // only Device::status() and synchronize() of the device tell. From then on
  // the device has failed.
  kCopySilent,
};

// The faults of one device: which call fails, which copy is slow. For tests.
// Thread-safe.
class FaultPlan {
 public:
  // The `nth` call from now on fails, 1 is the next one. It replaces a fault
  // of the same point that has not come yet.
  void fail(FaultPoint point, int64_t nth) EXCLUDES_LOCK(mutex_);
  // The `nth` copy from now on takes `delay` longer.
  void slow_copy(int64_t nth, absl::Duration delay) EXCLUDES_LOCK(mutex_);

  // Calls of the point so far, those that failed included.
  int64_t calls(FaultPoint point) const EXCLUDES_LOCK(mutex_);

  // For the device: counts a call, and returns its fault.
  absl::Status hit(FaultPoint point) EXCLUDES_LOCK(mutex_);
  // For the device: how much longer the copy takes that was counted last.
  absl::Duration copy_delay() EXCLUDES_LOCK(mutex_);

 private:
  static constexpr size_t kPoints = 10;
  struct Counter {
    int64_t calls = 0;
    int64_t fails_at = 0;
  };

  mutable Mutex mutex_;
  std::array<Counter, kPoints> counters_ GUARDED_BY(mutex_);
  int64_t slow_copy_at_ GUARDED_BY(mutex_) = 0;
  absl::Duration slow_copy_delay_ GUARDED_BY(mutex_);
};

}  // namespace ferry
