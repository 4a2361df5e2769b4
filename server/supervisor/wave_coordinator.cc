#include "server/supervisor/wave_coordinator.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ferry {

WaveCoordinator::WaveCoordinator(Start start) : start_(std::move(start)) {}

absl::Status WaveCoordinator::wanted(int64_t last_wave) {
  MutexLock lock(&mutex_);
  if (last_wave < 0 || last_wave > last_wave_) {
    return absl::InternalError(absl::StrCat("asks for a wave after ", last_wave,
                                            ", and ", last_wave_,
                                            " was the last"));
  }
  // Under the lock, so that all ranks get them in one order.
  if (last_wave == last_wave_) start_(++last_wave_);
  return absl::OkStatus();
}

int64_t WaveCoordinator::last_wave() const {
  MutexLock lock(&mutex_);
  return last_wave_;
}

}  // namespace ferry
