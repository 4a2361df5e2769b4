#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ferry/worker/v1/worker_service.pb.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"

namespace ferry {

// The rank's place for one generation, and what the heartbeat says of it.
//
//   idle ──acquire()──► running ──request_cancel()──► cancelled
//    ▲                     │                              │
//    └──────release()──────┴──────────────────────────────┘
//
// Threads: thread-safe; nothing here waits for a step, so that the heartbeat
//   answers whatever the step thread does.
class GenerationSlot {
 public:
  // `clock` must outlive the slot.
  explicit GenerationSlot(const Clock& clock) : clock_(clock) {}

  // FAILED_PRECONDITION with RANK_BUSY unless it is idle.
  absl::Status acquire(const std::string& job) EXCLUDES_LOCK(mutex_);
  // REQUIRES: it is not idle.
  void release() EXCLUDES_LOCK(mutex_);

  // Called by the step thread at each sign of progress.
  void note_progress() EXCLUDES_LOCK(mutex_);
  // Asks the running generation to end; the first call counts.
  void request_cancel() EXCLUDES_LOCK(mutex_);
  bool cancel_requested() const EXCLUDES_LOCK(mutex_);

  // Blocks until it is idle or `timeout` has passed; returns whether it is.
  bool wait_idle(absl::Duration timeout) EXCLUDES_LOCK(mutex_);

  worker::v1::HeartbeatResponse heartbeat() const EXCLUDES_LOCK(mutex_);

 private:
  struct Running {
    std::string job;
    // Monotonic.
    absl::Duration last_progress;
    std::optional<absl::Duration> cancelled;
  };

  const Clock& clock_;
  mutable Mutex mutex_;
  // Signalled by release().
  CondVar idle_;
  std::optional<Running> running_ GUARDED_BY(mutex_);
};

}  // namespace ferry
