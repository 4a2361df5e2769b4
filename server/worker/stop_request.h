#pragma once

#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"

namespace ferry {

// That the process shall end: set by a signal, awaited by main. Thread-safe.
class StopRequest {
 public:
  void request() EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    requested_ = true;
    changed_.notify_all();
  }

  void wait() EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    while (!requested_) changed_.wait(&mutex_);
  }

  // Returns whether it was requested in time.
  bool wait_for(absl::Duration timeout) EXCLUDES_LOCK(mutex_) {
    const Clock& clock = Clock::real();
    const absl::Duration deadline = clock.monotonic() + timeout;
    MutexLock lock(&mutex_);
    while (!requested_) {
      const absl::Duration left = deadline - clock.monotonic();
      if (left <= absl::ZeroDuration()) return false;
      changed_.wait_for(&mutex_, absl::ToChronoNanoseconds(left));
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool requested_ GUARDED_BY(mutex_) = false;
};

}  // namespace ferry
