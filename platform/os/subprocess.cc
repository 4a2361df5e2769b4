#include "platform/os/subprocess.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "platform/base/clock.h"
#include "platform/base/status_macros.h"
#include "platform/os/child_setup.h"
#include "platform/os/pipe.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace ferry {
namespace {

// How often the end of a process is looked for where there is no pidfd.
constexpr absl::Duration kPollInterval = absl::Milliseconds(10);

ChildSetup make_setup(const SubprocessOptions& options, int error_fd) {
  ChildSetup setup;
  for (const std::string& argument : options.argv) {
    // exec does not write to its arguments.
    setup.argv.push_back(const_cast<char*>(argument.c_str()));
  }
  setup.argv.push_back(nullptr);
  setup.inherited = options.inherited;
  setup.scratch.resize(options.inherited.size());
  setup.stdout_fd = options.stdout_fd;
  setup.stderr_fd = options.stderr_fd;
  setup.error_fd = error_fd;
  setup.parent = getpid();
  if (options.oom_score_adj != 0) {
    setup.oom_score_adj = absl::StrCat(options.oom_score_adj);
  }
  return setup;
}

// Forks with all signals blocked, so that no handler of the parent runs in the
// child.
pid_t fork_child(ChildSetup& setup) {
  sigset_t all;
  sigset_t old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  const pid_t pid = fork();
  if (pid == 0) run_child(setup);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  errno = error;
  return pid;
}

int poll_timeout(absl::Duration timeout) {
  if (timeout <= absl::ZeroDuration()) return 0;
  constexpr int64_t kMost = int64_t{60} * 60 * 1000;
  // Rounded up, so that waits do not spin in their last millisecond.
  const int64_t ms =
      absl::ToInt64Milliseconds(timeout + absl::Microseconds(999));
  return static_cast<int>(std::min(ms, kMost));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Subprocess>> Subprocess::spawn(
    const SubprocessOptions& options) {
  if (options.argv.empty()) {
    return absl::InvalidArgumentError("a subprocess needs a program");
  }
  ASSIGN_OR_RETURN(Pipe errors, make_pipe());
  ChildSetup setup = make_setup(options, errors.write_end.get());
  const pid_t pid = fork_child(setup);
  if (pid < 0) return absl::ErrnoToStatus(errno, "cannot fork");
  errors.write_end.reset();
  std::unique_ptr<Subprocess> process(new Subprocess(
      pid, UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)))));
  ChildFailure failure;
  ssize_t size;
  do {
    size = read(errors.read_end.get(), &failure, sizeof(failure));
  } while (size < 0 && errno == EINTR);
  if (size == sizeof(failure)) {
    process->wait_for(absl::InfiniteDuration());
    return absl::ErrnoToStatus(failure.error_number,
                               absl::StrCat("cannot start ", options.argv[0],
                                            " (", failure.step, ")"));
  }
  return process;
}

Subprocess::Subprocess(pid_t pid, UniqueFd pidfd)
    : pid_(pid), pidfd_(std::move(pidfd)) {}

Subprocess::~Subprocess() { terminate(absl::ZeroDuration()); }

void Subprocess::send_signal(int signal) {
  MutexLock lock(&mutex_);
  if (!exit_status_.has_value()) kill(pid_, signal);
}

std::optional<ExitStatus> Subprocess::try_reap() {
  MutexLock lock(&mutex_);
  if (exit_status_.has_value()) return exit_status_;
  siginfo_t info = {};
  if (waitid(P_PID, pid_, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  exit_status_ = info.si_code == CLD_EXITED
                     ? ExitStatus::exited(info.si_status)
                     : ExitStatus::signaled(info.si_status);
  return exit_status_;
}

std::optional<ExitStatus> Subprocess::wait_for(absl::Duration timeout) {
  const absl::Duration deadline = Clock::real().monotonic() + timeout;
  while (true) {
    if (std::optional<ExitStatus> status = try_reap()) return status;
    absl::Duration left = deadline - Clock::real().monotonic();
    if (left <= absl::ZeroDuration()) return std::nullopt;
    if (!pidfd_.valid()) left = std::min(left, kPollInterval);
    pollfd wait = {pidfd_.get(), POLLIN, 0};
    poll(&wait, 1, poll_timeout(left));
  }
}

ExitStatus Subprocess::terminate(absl::Duration grace) {
  if (grace > absl::ZeroDuration()) {
    send_signal(SIGTERM);
    if (std::optional<ExitStatus> status = wait_for(grace)) return *status;
  }
  send_signal(SIGKILL);
  return *wait_for(absl::InfiniteDuration());
}

}  // namespace ferry
