#include "tests/benchmarks/supervision.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>

#include "platform/base/check.h"
#include "tests/support/processes.h"

namespace ferry {
namespace {

int run_work(const std::function<void()>& work) {
  try {
    work();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "bench: " << error.what() << std::endl;
    return 1;
  }
}

// Blocks until `child` has ended, or one of the signals came.
int wait_for(pid_t child, const sigset_t& signals) {
  for (;;) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal != SIGCHLD) return 128 + signal;
    int status = 0;
    if (waitpid(child, &status, WNOHANG) != child) continue;
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    std::cerr << "bench: ended by signal " << WTERMSIG(status) << std::endl;
    return 1;
  }
}

// What a killed process leaves behind becomes a child of this one.
void end_children() {
  do {
    for (const pid_t pid : find_children(getpid())) kill(pid, SIGKILL);
  } while (waitpid(-1, nullptr, 0) > 0 || errno != ECHILD);
}

}  // namespace

int run_supervised(const std::function<void()>& work) {
  FERRY_CHECK(has_one_thread());
  std::string directory =
      std::filesystem::temp_directory_path() / "ferry_bench_XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) {
    std::cerr << "bench: cannot make " << directory << std::endl;
    return 1;
  }
  setenv("TEST_TMPDIR", directory.c_str(), 1);
  adopt_orphans();
  sigset_t signals;
  sigset_t before;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) {
    sigaddset(&signals, signal);
  }
  sigprocmask(SIG_BLOCK, &signals, &before);

  const pid_t child = fork();
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    std::exit(run_work(work));
  }
  const int code = child > 0 ? wait_for(child, signals) : 1;
  end_children();
  std::filesystem::remove_all(directory);
  return code;
}

}  // namespace ferry
