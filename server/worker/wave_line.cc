#include "server/worker/wave_line.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "platform/base/check.h"
#include "platform/base/error_info.h"

namespace ferry {

WaveLine::~WaveLine() {
  MutexLock lock(&start_mutex_);
  FERRY_CHECK(participant_ == nullptr);
}

void WaveLine::attach(WaveParticipant& participant) {
  MutexLock lock(&start_mutex_);
  FERRY_CHECK(participant_ == nullptr);
  participant.set_wave_wanted([this](int64_t last_wave) { want(last_wave); });
  participant_ = &participant;
  while (given_ < started_) participant_->start_wave(++given_);
}

void WaveLine::detach() {
  MutexLock lock(&start_mutex_);
  if (participant_ != nullptr) participant_->set_wave_wanted(nullptr);
  participant_ = nullptr;
}

absl::Status WaveLine::start(int64_t wave) {
  MutexLock lock(&start_mutex_);
  if (wave != started_ + 1) {
    return make_error(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("wave ", wave, " was started after wave ", started_),
        {"WRONG_STATE", {}});
  }
  started_ = wave;
  if (participant_ != nullptr) participant_->start_wave(++given_);
  return absl::OkStatus();
}

std::optional<int64_t> WaveLine::next_wanted() {
  MutexLock lock(&want_mutex_);
  while (!wanted_.has_value() && !closed_) want_changed_.wait(&want_mutex_);
  if (closed_) return std::nullopt;
  return std::exchange(wanted_, std::nullopt);
}

void WaveLine::close() {
  MutexLock lock(&want_mutex_);
  closed_ = true;
  want_changed_.notify_all();
}

void WaveLine::want(int64_t last_wave) {
  MutexLock lock(&want_mutex_);
  // An older one has been answered, or is about to be.
  wanted_ = std::max(wanted_.value_or(last_wave), last_wave);
  want_changed_.notify_all();
}

}  // namespace ferry
