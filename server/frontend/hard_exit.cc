#include "server/frontend/hard_exit.h"

#include <utility>

namespace ferry {

HardExit::HardExit(absl::Duration timeout, std::function<void()> exit,
                   const Clock& clock)
    : exit_(std::move(exit)),
      clock_(clock),
      thread_([this, timeout] { run(timeout); }) {}

HardExit::~HardExit() {
  {
    MutexLock lock(&mutex_);
    disarmed_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void HardExit::run(absl::Duration timeout) {
  {
    MutexLock lock(&mutex_);
    const absl::Duration end = clock_.monotonic() + timeout;
    while (!disarmed_) {
      const absl::Duration left = end - clock_.monotonic();
      if (left <= absl::ZeroDuration()) break;
      changed_.wait_for(&mutex_, absl::ToChronoNanoseconds(left));
    }
    if (disarmed_) return;
  }
  exit_();
}

}  // namespace ferry
