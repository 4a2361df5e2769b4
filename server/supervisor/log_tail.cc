#include "server/supervisor/log_tail.h"

#include <utility>

#include "platform/base/clock.h"

namespace ferry {

void LogTail::add(std::string line) {
  MutexLock lock(&mutex_);
  lines_.push_back(std::move(line));
  if (lines_.size() > kLines) lines_.pop_front();
}

void LogTail::close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  closed_changed_.notify_all();
}

void LogTail::wait_closed(absl::Duration timeout) {
  const absl::Duration deadline = Clock::real().monotonic() + timeout;
  MutexLock lock(&mutex_);
  while (!closed_) {
    const absl::Duration left = deadline - Clock::real().monotonic();
    if (left <= absl::ZeroDuration()) return;
    closed_changed_.wait_for(&mutex_, absl::ToChronoNanoseconds(left));
  }
}

std::vector<std::string> LogTail::lines() const {
  MutexLock lock(&mutex_);
  return {lines_.begin(), lines_.end()};
}

}  // namespace ferry
