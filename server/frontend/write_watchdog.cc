#include "server/frontend/write_watchdog.h"

namespace ferry {

WriteWatchdog::Guard::Guard(WriteWatchdog* watchdog,
                            grpc::ServerContext* context)
    : watchdog_(watchdog), id_(watchdog->add(context)) {}

WriteWatchdog::Guard::~Guard() { watchdog_->remove(id_); }

bool WriteWatchdog::Guard::expired() const {
  return watchdog_->has_expired(id_);
}

WriteWatchdog::WriteWatchdog(absl::Duration timeout, const Clock& clock)
    : timeout_(timeout), clock_(clock), thread_([this] { run(); }) {}

WriteWatchdog::~WriteWatchdog() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

int64_t WriteWatchdog::add(grpc::ServerContext* context) {
  MutexLock lock(&mutex_);
  const int64_t id = next_id_++;
  writes_[id] = Write{context, clock_.monotonic() + timeout_};
  // Otherwise the thread wakes for an earlier one anyway.
  if (is_idle_) changed_.notify_all();
  return id;
}

void WriteWatchdog::remove(int64_t id) {
  MutexLock lock(&mutex_);
  writes_.erase(id);
}

bool WriteWatchdog::has_expired(int64_t id) const {
  MutexLock lock(&mutex_);
  return writes_.at(id).expired;
}

void WriteWatchdog::run() {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    is_idle_ = writes_.empty();
    if (is_idle_) {
      changed_.wait(&mutex_);
      continue;
    }
    const absl::Duration next = cancel_overdue();
    changed_.wait_for(&mutex_, absl::ToChronoNanoseconds(next));
  }
}

absl::Duration WriteWatchdog::cancel_overdue() {
  const absl::Duration now = clock_.monotonic();
  for (auto& [id, write] : writes_) {
    if (write.expired) continue;
    if (write.deadline > now) return write.deadline - now;
    write.expired = true;
    // Under the lock: the guard's destructor, and so the context's, waits.
    write.context->TryCancel();
  }
  return timeout_;
}

}  // namespace ferry
