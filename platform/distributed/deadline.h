#pragma once

#include <algorithm>

#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"

namespace ferry {

// The moment, in real time, by which a call must have returned. A value.
class Deadline {
 public:
  explicit Deadline(absl::Duration timeout)
      : timeout_(timeout), at_(Clock::real().monotonic() + timeout) {}

  // What it was made with.
  absl::Duration timeout() const { return timeout_; }
  // Not negative.
  absl::Duration left() const {
    return std::max(at_ - Clock::real().monotonic(), absl::ZeroDuration());
  }
  bool has_passed() const { return left() == absl::ZeroDuration(); }

  // Blocks until `changed` is notified, the deadline passes, or sooner: callers
  // loop.
  void wait(CondVar* changed, Mutex* mutex) const REQUIRES_LOCK(mutex) {
    // What is longer than a condition variable can tell is cut into pieces.
    changed->wait_for(
        mutex, absl::ToChronoNanoseconds(std::min(left(), absl::Hours(1))));
  }

 private:
  absl::Duration timeout_;
  absl::Duration at_;
};

}  // namespace ferry
