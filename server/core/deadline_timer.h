#pragma once

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"

namespace ferry {

// A thread that calls a function when something is due.
//
// Ownership: owns the thread; the destructor stops and joins it.
// Threads: thread-safe. `expire` runs on the thread, without the lock held.
class DeadlineTimer {
 public:
  // Does what is due and returns the monotonic time at which the next thing
  // is, infinite when nothing is waited for.
  using Expire = std::function<absl::Duration()>;

  // `clock` must outlive the timer.
  DeadlineTimer(const Clock& clock, Expire expire);
  ~DeadlineTimer();
  DeadlineTimer(const DeadlineTimer&) = delete;
  DeadlineTimer& operator=(const DeadlineTimer&) = delete;

  // Something may be due earlier than `expire` last said.
  void wake() EXCLUDES_LOCK(mutex_);

 private:
  void loop() EXCLUDES_LOCK(mutex_);

  const Clock& clock_;
  const Expire expire_;

  Mutex mutex_;
  CondVar changed_;
  bool woken_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  // Last: it uses the others.
  std::thread thread_;
};

}  // namespace ferry
