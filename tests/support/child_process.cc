#include "tests/support/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/support/files.h"

extern char** environ;

namespace ferry {
namespace {

[[noreturn]] void die(const std::string& what, int error) {
  fprintf(stderr, "%s: %s\n", what.c_str(), strerror(error));
  abort();
}

std::string new_output_path(const std::string& stem) {
  static int counter = 0;
  return absl::StrCat(test_tmpdir(), "/", stem, ".", getpid(), ".", counter++);
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> merged_environment(
    const std::vector<std::string>& overrides) {
  std::vector<std::string> result = overrides;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string own = *entry;
    const std::string prefix = own.substr(0, own.find('=') + 1);
    bool overridden = false;
    for (const std::string& other : overrides) {
      overridden |= other.compare(0, prefix.size(), prefix) == 0;
    }
    if (!overridden) result.push_back(own);
  }
  return result;
}

}  // namespace

ChildProcess::ChildProcess(const Options& options)
    : stdout_path_(new_output_path("stdout")),
      stderr_path_(new_output_path("stderr")) {
  std::vector<std::string> arguments = options.arguments;
  std::vector<std::string> environment =
      merged_environment(options.environment);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const int flags = O_WRONLY | O_CREAT | O_APPEND;
  const std::string& out =
      options.stdout_path.empty() ? stdout_path_ : options.stdout_path;
  const std::string& err =
      options.stderr_path.empty() ? stderr_path_ : options.stderr_path;
  posix_spawn_file_actions_addopen(&actions, 0, options.stdin_path.c_str(),
                                   O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), flags, 0600);
  if (!options.working_directory.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions,
                                         options.working_directory.c_str());
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t no_signals;
  sigemptyset(&no_signals);
  posix_spawnattr_setsigmask(&attributes, &no_signals);
  // Its own process group: a Ctrl-C in the test's terminal is not for it.
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);

  const int error =
      posix_spawnp(&pid_, arguments[0].c_str(), &actions, &attributes,
                   pointers(arguments).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) die(absl::StrCat("cannot start ", arguments[0]), error);
  pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (pidfd_ < 0) die("pidfd_open", errno);
}

ChildProcess::~ChildProcess() {
  send_signal(SIGKILL);
  wait(absl::InfiniteDuration());
  close(pidfd_);
}

void ChildProcess::send_signal(int signal) {
  // The process is not reaped before wait() has seen its end, so the pid is
  // still its own.
  if (!exit_.has_value()) kill(pid_, signal);
}

std::optional<ProcessExit> ChildProcess::wait(absl::Duration timeout) {
  if (exit_.has_value()) return exit_;
  pollfd poll_fd = {pidfd_, POLLIN, 0};
  const int milliseconds = timeout == absl::InfiniteDuration()
                               ? -1
                               : absl::ToInt64Milliseconds(timeout);
  int ready;
  do {
    ready = poll(&poll_fd, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) return std::nullopt;
  siginfo_t info = {};
  if (waitid(P_PID, pid_, &info, WEXITED) != 0) die("waitid", errno);
  ProcessExit result;
  if (info.si_code == CLD_EXITED) {
    result.code = info.si_status;
  } else {
    result.signal = info.si_status;
  }
  exit_ = result;
  return exit_;
}

std::string ChildProcess::read_stdout() const {
  return read_file(stdout_path_).value_or("");
}

std::string ChildProcess::read_stderr() const {
  return read_file(stderr_path_).value_or("");
}

ProcessResult run_process(const ChildProcess::Options& options,
                          absl::Duration timeout) {
  ChildProcess process(options);
  if (!process.wait(timeout).has_value()) process.send_signal(SIGKILL);
  ProcessResult result;
  result.exit = *process.wait(absl::InfiniteDuration());
  result.out = process.read_stdout();
  result.err = process.read_stderr();
  return result;
}

}  // namespace ferry
