#include "platform/base/testing/wait_until.h"

#include "platform/base/clock.h"
#include "platform/base/mutex.h"

namespace ferry {

void wait_until(absl::Duration end) {
  Mutex mutex;
  CondVar nothing_comes;
  MutexLock lock(&mutex);
  for (;;) {
    const absl::Duration left = end - Clock::real().monotonic();
    if (left <= absl::ZeroDuration()) return;
    nothing_comes.wait_for(&mutex, absl::ToChronoNanoseconds(left));
  }
}

}  // namespace ferry
