#include "server/worker/generation_slot.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "platform/base/check.h"
#include "platform/base/error_info.h"

namespace ferry {
namespace {

void set_duration(absl::Duration value, google::protobuf::Duration* out) {
  out->set_seconds(absl::IDivDuration(value, absl::Seconds(1), &value));
  out->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(value)));
}

}  // namespace

absl::Status GenerationSlot::acquire(const std::string& job) {
  MutexLock lock(&mutex_);
  if (running_.has_value()) {
    return make_error(absl::StatusCode::kFailedPrecondition,
                      absl::StrCat("the rank runs ", running_->job,
                                   " and takes one at a time"),
                      {"RANK_BUSY", {{"job", running_->job}}});
  }
  running_ = Running{job, clock_.monotonic(), std::nullopt};
  return absl::OkStatus();
}

void GenerationSlot::release() {
  MutexLock lock(&mutex_);
  FERRY_CHECK(running_.has_value());
  running_.reset();
  idle_.notify_all();
}

void GenerationSlot::note_progress() {
  MutexLock lock(&mutex_);
  if (running_.has_value()) running_->last_progress = clock_.monotonic();
}

void GenerationSlot::request_cancel() {
  MutexLock lock(&mutex_);
  if (running_.has_value() && !running_->cancelled.has_value()) {
    running_->cancelled = clock_.monotonic();
  }
}

bool GenerationSlot::cancel_requested() const {
  MutexLock lock(&mutex_);
  return running_.has_value() && running_->cancelled.has_value();
}

bool GenerationSlot::wait_idle(absl::Duration timeout) {
  MutexLock lock(&mutex_);
  if (running_.has_value()) {
    idle_.wait_for(&mutex_, absl::ToChronoNanoseconds(timeout));
  }
  return !running_.has_value();
}

worker::v1::HeartbeatResponse GenerationSlot::heartbeat() const {
  worker::v1::HeartbeatResponse response;
  MutexLock lock(&mutex_);
  if (!running_.has_value()) return response;
  const absl::Duration now = clock_.monotonic();
  response.set_job(running_->job);
  set_duration(now - running_->last_progress,
               response.mutable_since_progress());
  if (running_->cancelled.has_value()) {
    set_duration(now - *running_->cancelled, response.mutable_since_cancel());
  }
  return response;
}

}  // namespace ferry
