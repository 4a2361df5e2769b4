#include "server/core/deadline_timer.h"

#include <algorithm>
#include <utility>

namespace ferry {

DeadlineTimer::DeadlineTimer(const Clock& clock, Expire expire)
    : clock_(clock), expire_(std::move(expire)), thread_([this] { loop(); }) {}

DeadlineTimer::~DeadlineTimer() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DeadlineTimer::wake() {
  {
    MutexLock lock(&mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void DeadlineTimer::loop() {
  for (;;) {
    const absl::Duration due = expire_();
    MutexLock lock(&mutex_);
    while (!stopping_ && !woken_) {
      const absl::Duration left = due - clock_.monotonic();
      if (left <= absl::ZeroDuration()) break;
      if (left == absl::InfiniteDuration()) {
        changed_.wait(&mutex_);
      } else {
        // Rounded up, so that the time has come when it wakes.
        changed_.wait_for(
            &mutex_, absl::ToChronoNanoseconds(std::min(left, absl::Hours(24)) +
                                               absl::Nanoseconds(1)));
      }
    }
    if (stopping_) return;
    woken_ = false;
  }
}

}  // namespace ferry
