#pragma once

#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"

namespace ferry {

// A clock that stands still until a test moves it. For timeouts, deadlines and
// timestamps. Starts at 2026-01-01 and one hour of monotonic time. Nobody is
// woken by a move: the test tells the code under test to look again.
//
// Threads: thread-safe.
class SimulatedClock final : public Clock {
 public:
  absl::Time now() const override EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    return absl::FromUnixSeconds(1767225600) + passed_;
  }

  absl::Duration monotonic() const override EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    return absl::Hours(1) + passed_;
  }

  void advance(absl::Duration duration) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    passed_ += duration;
  }

 private:
  mutable Mutex mutex_;
  absl::Duration passed_ GUARDED_BY(mutex_);
};

}  // namespace ferry
