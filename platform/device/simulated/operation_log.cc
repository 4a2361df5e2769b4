#include "platform/device/simulated/operation_log.h"

namespace ferry {

void OperationLog::start(size_t capacity) {
  MutexLock lock(&mutex_);
  ring_.assign(capacity, LoggedOperation{});
  added_ = 0;
}

void OperationLog::add(const LoggedOperation& entry) {
  MutexLock lock(&mutex_);
  if (ring_.empty()) return;
  ring_[added_++ % ring_.size()] = entry;
}

std::vector<LoggedOperation> OperationLog::entries() const {
  MutexLock lock(&mutex_);
  std::vector<LoggedOperation> entries;
  const size_t kept = added_ < ring_.size() ? added_ : ring_.size();
  entries.reserve(kept);
  for (size_t i = added_ - kept; i < added_; ++i) {
    entries.push_back(ring_[i % ring_.size()]);
  }
  return entries;
}

}  // namespace ferry
