#pragma once

#include <grpcpp/server_context.h>

#include <cstdint>
#include <map>
#include <thread>

#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"

namespace ferry {

// Ends calls whose client does not read: a write to a stream blocks as long as
// the client likes, and only another thread can end it.
//
// Ownership: owns one thread, joined by the destructor. It must outlive its
//   guards.
// Threads: thread-safe.
class WriteWatchdog {
 public:
  // Watches one write. Destroyed when the write has returned.
  class Guard {
   public:
    // `context` must outlive the guard.
    Guard(WriteWatchdog* watchdog, grpc::ServerContext* context);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

    // The write took too long and the call was cancelled.
    bool expired() const;

   private:
    WriteWatchdog* const watchdog_;
    const int64_t id_;
  };

  // `timeout`: what one write may take.
  WriteWatchdog(absl::Duration timeout, const Clock& clock);
  ~WriteWatchdog();
  WriteWatchdog(const WriteWatchdog&) = delete;
  WriteWatchdog& operator=(const WriteWatchdog&) = delete;

  absl::Duration timeout() const { return timeout_; }

 private:
  struct Write {
    grpc::ServerContext* context;
    // Monotonic.
    absl::Duration deadline;
    bool expired = false;
  };

  int64_t add(grpc::ServerContext* context) EXCLUDES_LOCK(mutex_);
  void remove(int64_t id) EXCLUDES_LOCK(mutex_);
  bool has_expired(int64_t id) const EXCLUDES_LOCK(mutex_);
  void run() EXCLUDES_LOCK(mutex_);
  // Cancels what is overdue; returns when the next write will be.
  absl::Duration cancel_overdue() REQUIRES_LOCK(mutex_);

  const absl::Duration timeout_;
  const Clock& clock_;
  mutable Mutex mutex_;
  CondVar changed_;
  // By number, which is also the order of their deadlines.
  std::map<int64_t, Write> writes_ GUARDED_BY(mutex_);
  int64_t next_id_ GUARDED_BY(mutex_) = 0;
  // The thread waits for a write, not for a deadline: every write would wake it
  // else, for nothing.
  bool is_idle_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ferry
