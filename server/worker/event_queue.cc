#include "server/worker/event_queue.h"

#include <utility>

#include "platform/base/check.h"

namespace ferry {

void EventQueue::push(worker::v1::RunGenerationResponse event) {
  const int64_t size = static_cast<int64_t>(event.ByteSizeLong());
  MutexLock lock(&mutex_);
  FERRY_CHECK(!finished_);
  while (!abandoned_ && !events_.empty() && bytes_ + size > max_bytes_) {
    changed_.wait(&mutex_);
  }
  if (abandoned_) return;
  bytes_ += size;
  events_.push_back(std::move(event));
  changed_.notify_all();
}

void EventQueue::finish(absl::Status status) {
  MutexLock lock(&mutex_);
  FERRY_CHECK(!finished_);
  finished_ = true;
  status_ = std::move(status);
  changed_.notify_all();
}

EventQueue::Popped EventQueue::pop(absl::Duration timeout,
                                   worker::v1::RunGenerationResponse* event) {
  MutexLock lock(&mutex_);
  if (events_.empty() && !finished_) {
    changed_.wait_for(&mutex_, absl::ToChronoNanoseconds(timeout));
  }
  if (events_.empty()) return finished_ ? Popped::kEnd : Popped::kNothingYet;
  *event = std::move(events_.front());
  events_.pop_front();
  bytes_ -= static_cast<int64_t>(event->ByteSizeLong());
  changed_.notify_all();
  return Popped::kEvent;
}

void EventQueue::abandon() {
  MutexLock lock(&mutex_);
  abandoned_ = true;
  events_.clear();
  bytes_ = 0;
  changed_.notify_all();
}

absl::Status EventQueue::status() const {
  MutexLock lock(&mutex_);
  FERRY_CHECK(finished_ && events_.empty());
  return status_;
}

}  // namespace ferry
