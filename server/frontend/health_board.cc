#include "server/frontend/health_board.h"

namespace ferry {

void HealthBoard::set(const Statuses& statuses) {
  MutexLock lock(&mutex_);
  for (const auto& [service, serving] : statuses) services_[service] = serving;
  changed_.notify_all();
}

HealthBoard::Status HealthBoard::find(absl::string_view service) const {
  MutexLock lock(&mutex_);
  return find_locked(service);
}

HealthBoard::Status HealthBoard::wait_for_change(absl::string_view service,
                                                 Status seen,
                                                 absl::Duration timeout) const {
  MutexLock lock(&mutex_);
  if (!closed_ && find_locked(service) == seen) {
    // A change of another service wakes it, too: the caller asks again.
    changed_.wait_for(&mutex_, absl::ToChronoNanoseconds(timeout));
  }
  return find_locked(service);
}

void HealthBoard::close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool HealthBoard::is_closed() const {
  MutexLock lock(&mutex_);
  return closed_;
}

HealthBoard::Status HealthBoard::find_locked(absl::string_view service) const {
  const auto found = services_.find(service);
  if (found == services_.end()) return std::nullopt;
  return found->second;
}

}  // namespace ferry
