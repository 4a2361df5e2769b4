#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "platform/base/mutex.h"
#include "platform/os/exit_status.h"
#include "platform/os/unique_fd.h"

namespace ferry {

// What to start, and what the child gets.
struct SubprocessOptions {
  // The program's path, then its arguments.
  std::vector<std::string> argv;
  // Descriptor inherited[i] of the parent is 3 + i in the child. The child has
  // no others but 0 to 2. They must stay open until spawn() returns.
  std::vector<int> inherited;
  // The child's stdout and stderr; −1: those of the parent. Its stdin is
  // /dev/null.
  int stdout_fd = -1;
  int stderr_fd = -1;
  // Added by the child to its own score (0 to 1000), so that the kernel picks
  // it before its parent when memory runs out.
  int oom_score_adj = 0;
};

// A child process.
//
// The child leads a session of its own (a terminal's Ctrl-C does not reach
// it), has default signal handlers and an empty mask, gains no privileges, and
// is killed when the *thread* that forked it ends: ProcessSpawner (
// process_spawner.h) forks on a thread that lives long enough.
//
// Ownership: the destructor kills the process, if it runs, and reaps it.
// Threads: thread-safe; the destructor must be alone.
// Errors: nothing fails once the process runs.
class Subprocess {
 public:
  // Forks and executes on the calling thread. Blocks until the program has been
  // executed. Errors: the program cannot be executed (named, with the cause),
  // or the system refused a process or a descriptor.
  static absl::StatusOr<std::unique_ptr<Subprocess>> spawn(
      const SubprocessOptions& options);

  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }

  // Sends a signal; does nothing once the process has been reaped, so that it
  // never hits another process of the same id.
  void send_signal(int signal) EXCLUDES_LOCK(mutex_);

  // Blocks until the process has ended, and reaps it, or until `timeout` has
  // passed: returns nothing then. Any number of calls, also after the end.
  std::optional<ExitStatus> wait_for(absl::Duration timeout)
      EXCLUDES_LOCK(mutex_);

  // Ends the process: SIGTERM, SIGKILL after `grace`. Blocks until it has been
  // reaped.
  ExitStatus terminate(absl::Duration grace) EXCLUDES_LOCK(mutex_);

 private:
  Subprocess(pid_t pid, UniqueFd pidfd);

  // Reaps the process if it has ended.
  std::optional<ExitStatus> try_reap() EXCLUDES_LOCK(mutex_);

  const pid_t pid_;
  // Readable once the process has ended. Invalid before Linux 5.3.
  const UniqueFd pidfd_;
  Mutex mutex_;
  std::optional<ExitStatus> exit_status_ GUARDED_BY(mutex_);
};

}  // namespace ferry
