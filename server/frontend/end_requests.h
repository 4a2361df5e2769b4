#pragma once

#include <string>

#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"
#include "server/frontend/exit_codes.h"

namespace ferry {

// Why ferryd should end, collected from the threads of signals and supervisor.
//
// Exists before anything else, so that no signal is lost; the first request
// decides the exit code, a second signal asks for haste.
//
// Threads: thread-safe.
class EndRequests {
 public:
  explicit EndRequests(const Clock& clock) : clock_(clock) {}

  // SIGTERM or SIGINT. A second one, or one after another request: at once.
  void on_signal(int signal) EXCLUDES_LOCK(mutex_);
  // Something that ferryd cannot go on with. `why` is for people.
  void on_failure(ExitCode code, const std::string& why) EXCLUDES_LOCK(mutex_);

  // Blocks until there is a request.
  void wait() EXCLUDES_LOCK(mutex_);
  // Blocks until the end is urgent, for at most `timeout`; returns whether it
  // is.
  bool wait_until_urgent(absl::Duration timeout) EXCLUDES_LOCK(mutex_);

  bool is_urgent() const EXCLUDES_LOCK(mutex_);
  // kDrained for a signal.
  ExitCode code() const EXCLUDES_LOCK(mutex_);
  std::string why() const EXCLUDES_LOCK(mutex_);

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool requested_ GUARDED_BY(mutex_) = false;
  bool urgent_ GUARDED_BY(mutex_) = false;
  ExitCode code_ GUARDED_BY(mutex_) = kDrained;
  std::string why_ GUARDED_BY(mutex_);
};

}  // namespace ferry
