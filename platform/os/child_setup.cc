#include "platform/os/child_setup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ferry {
namespace {

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

constexpr int kFirstInherited = 3;
// What exits with when the program was not executed, as shells do.
constexpr int kNotExecuted = 127;

[[noreturn]] void fail(const ChildSetup& setup, const char* step) {
  const ChildFailure failure = {errno, step};
  // Nobody is left to tell when the write fails.
  [[maybe_unused]] const ssize_t written =
      write(setup.error_fd, &failure, sizeof(failure));
  _exit(kNotExecuted);
}

void reset_signals() {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  // The kernel refuses SIGKILL and SIGSTOP, glibc its own two: as it should be.
  for (int i = 1; i < NSIG; ++i) sigaction(i, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

void close_from(int first) {
  if (syscall(SYS_close_range, first, ~0U, 0) == 0) return;
  // Before Linux 5.9.
  struct rlimit limit = {};
  constexpr rlim_t kMost = 65536;
  rlim_t end = kMost;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < end) {
    end = limit.rlim_cur;
  }
  for (int fd = first; fd < static_cast<int>(end); ++fd) close(fd);
}

// Moves the descriptors to their places. First all of them are copied above
// the places, so that none is overwritten before it was moved.
void place_descriptors(ChildSetup& setup) {
  const int count = static_cast<int>(setup.inherited.size());
  const int above = kFirstInherited + count + 1;
  const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null_fd < 0) fail(setup, "open /dev/null");
  const int stdin_fd = fcntl(null_fd, F_DUPFD_CLOEXEC, above);
  const int error_fd = fcntl(setup.error_fd, F_DUPFD_CLOEXEC, above);
  if (stdin_fd < 0 || error_fd < 0) fail(setup, "copy a descriptor");
  setup.error_fd = error_fd;
  int out = setup.stdout_fd;
  int err = setup.stderr_fd;
  if (out >= 0) out = fcntl(out, F_DUPFD_CLOEXEC, above);
  if (err >= 0) err = fcntl(err, F_DUPFD_CLOEXEC, above);
  for (int i = 0; i < count; ++i) {
    setup.scratch[i] = fcntl(setup.inherited[i], F_DUPFD_CLOEXEC, above);
    if (setup.scratch[i] < 0) fail(setup, "copy an inherited descriptor");
  }
  bool placed = dup2(stdin_fd, STDIN_FILENO) >= 0;
  if (out >= 0) placed &= dup2(out, STDOUT_FILENO) >= 0;
  if (err >= 0) placed &= dup2(err, STDERR_FILENO) >= 0;
  for (int i = 0; i < count; ++i) {
    placed &= dup2(setup.scratch[i], kFirstInherited + i) >= 0;
  }
  const int last = kFirstInherited + count;
  placed &= dup3(setup.error_fd, last, O_CLOEXEC) >= 0;
  if (!placed) fail(setup, "place a descriptor");
  setup.error_fd = last;
  close_from(last + 1);
}

}  // namespace

void run_child(ChildSetup& setup) {
  reset_signals();
  if (setsid() < 0) fail(setup, "setsid");
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail(setup, "PR_SET_PDEATHSIG");
  // The parent may have died before the line above.
  if (getppid() != setup.parent) _exit(kNotExecuted);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    fail(setup, "PR_SET_NO_NEW_PRIVS");
  }
  if (!setup.oom_score_adj.empty()) {
    // A wish: some containers mount /proc read-only.
    const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
      [[maybe_unused]] const ssize_t written =
          write(fd, setup.oom_score_adj.data(), setup.oom_score_adj.size());
      close(fd);
    }
  }
  place_descriptors(setup);
  execv(setup.argv[0], setup.argv.data());
  fail(setup, "exec");
}

}  // namespace ferry
