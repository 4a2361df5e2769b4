#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "offload/wave_participant.h"
#include "platform/base/check.h"
#include "platform/base/mutex.h"

namespace ferry {

// Takes part in waves and wants another after each. Thread-safe.
class EagerParticipant final : public WaveParticipant {
 public:
  // Wants none after `last`.
  explicit EagerParticipant(int64_t last = std::numeric_limits<int64_t>::max())
      : last_(last) {}

  void start_wave(int64_t wave) override EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    waves_.push_back(wave);
    changed_.notify_all();
    if (wanted_ && wave < last_) wanted_(wave);
  }

  void set_wave_wanted(WaveWanted wanted) override EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    wanted_ = std::move(wanted);
  }

  // REQUIRES: attached.
  void want(int64_t last_wave) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    FERRY_CHECK(wanted_ != nullptr);
    wanted_(last_wave);
  }

  // Blocks until so many have been started.
  void wait_for(size_t waves) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    while (waves_.size() < waves) changed_.wait(&mutex_);
  }

  // Those that have been started, in order.
  std::vector<int64_t> waves() const EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    return waves_;
  }

 private:
  const int64_t last_;
  mutable Mutex mutex_;
  CondVar changed_;
  WaveWanted wanted_ GUARDED_BY(mutex_);
  std::vector<int64_t> waves_ GUARDED_BY(mutex_);
};

}  // namespace ferry
