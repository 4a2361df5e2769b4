#include "server/core/deadline_timer.h"

#include <gtest/gtest.h>

#include "platform/base/testing/simulated_clock.h"

namespace ferry {
namespace {

// Counts calls; each returns what is due next.
class Expirations {
 public:
  explicit Expirations(absl::Duration due) : due_(due) {}

  absl::Duration operator()() {
    MutexLock lock(&mutex_);
    ++calls_;
    changed_.notify_all();
    return due_;
  }

  void set_due(absl::Duration due) {
    MutexLock lock(&mutex_);
    due_ = due;
  }

  void wait_for(int calls) {
    MutexLock lock(&mutex_);
    while (calls_ < calls) changed_.wait(&mutex_);
  }

  int calls() {
    MutexLock lock(&mutex_);
    return calls_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  absl::Duration due_ GUARDED_BY(mutex_);
  int calls_ GUARDED_BY(mutex_) = 0;
};

TEST(DeadlineTimerTest, LooksAgainWhenWoken) {
  SimulatedClock clock;
  Expirations expirations(absl::InfiniteDuration());
  DeadlineTimer timer(clock, [&] { return expirations(); });
  expirations.wait_for(1);
  timer.wake();
  expirations.wait_for(2);
}

TEST(DeadlineTimerTest, LooksAgainWhenTheTimeHasCome) {
  Expirations expirations(Clock::real().monotonic() + absl::Milliseconds(5));
  DeadlineTimer timer(Clock::real(), [&] {
    const absl::Duration due = expirations();
    if (expirations.calls() == 2) {
      expirations.set_due(absl::InfiniteDuration());
    }
    return due;
  });
  expirations.wait_for(2);
}

TEST(DeadlineTimerTest, StopsWhileItWaits) {
  SimulatedClock clock;
  for (int i = 0; i < 100; ++i) {
    DeadlineTimer timer(clock, [] { return absl::InfiniteDuration(); });
  }
}

}  // namespace
}  // namespace ferry
