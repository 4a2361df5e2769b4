#pragma once

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"

namespace ferry {

// Ends the process when its orderly end takes too long: gRPC's shutdown waits
// for handlers without a bound, and a worker may hang in its driver.
//
// Ownership: owns a thread; the destructor disarms and joins it.
// Threads: create and destroy on one thread.
class HardExit {
 public:
  // Calls `exit` after `timeout`. Production: logs, then _exit(kWorkLost).
  HardExit(absl::Duration timeout, std::function<void()> exit,
           const Clock& clock);
  ~HardExit();
  HardExit(const HardExit&) = delete;
  HardExit& operator=(const HardExit&) = delete;

 private:
  void run(absl::Duration timeout) EXCLUDES_LOCK(mutex_);

  const std::function<void()> exit_;
  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  bool disarmed_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ferry
