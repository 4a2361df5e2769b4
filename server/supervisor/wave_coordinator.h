#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "platform/base/mutex.h"

namespace ferry {

// Numbers the waves of one group (offload/wave_participant.h): whichever rank
// wants one after the last, the next is started on all.
//
//   wanted(k), k the last one started   starts k + 1
//   wanted(k), k an older one           nothing: another rank was quicker
//
// Pure: what reaches the ranks is the owner's business. One for each
// generation. Threads: thread-safe. Starts come one at a time, in order.
// Errors: a rank that knows of a wave that was never started, INTERNAL.
class WaveCoordinator {
 public:
  // Gives a wave to every rank; must not wait for one.
  using Start = std::function<void(int64_t wave)>;

  explicit WaveCoordinator(Start start);

  // A rank wants a wave after this one; 0 before the first.
  absl::Status wanted(int64_t last_wave) EXCLUDES_LOCK(mutex_);

  // The last one that was started; 0: none.
  int64_t last_wave() const EXCLUDES_LOCK(mutex_);

 private:
  const Start start_;
  mutable Mutex mutex_;
  int64_t last_wave_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ferry
