#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace ferry {

// How a process ended.
struct ProcessExit {
  // Exit status; -1 when a signal ended it.
  int code = -1;
  // Signal that ended it; 0 when it exited.
  int signal = 0;
};

// A child process whose output goes to files.
//
// Ownership: the destructor kills the process and reaps it.
// Threads: not thread-safe.
// Errors: a process that cannot be started aborts the test program.
class ChildProcess {
 public:
  struct Options {
    // Program and arguments.
    std::vector<std::string> arguments;
    // NAME=VALUE; in place of the test's own when names are equal.
    std::vector<std::string> environment;
    // Empty: the test's own.
    std::string working_directory;
    // File of its standard input. A FIFO must be open for writing already.
    std::string stdin_path = "/dev/null";
    // Files that its output goes to, in place of those that read_stdout() and
    // read_stderr() read.
    std::string stdout_path = "";
    std::string stderr_path = "";
  };

  explicit ChildProcess(const Options& options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Sends a signal; nothing happens when the process has ended.
  void send_signal(int signal);
  // Blocks until the process has ended; nothing when `timeout` passes before.
  std::optional<ProcessExit> wait(absl::Duration timeout);
  bool is_running() { return !wait(absl::ZeroDuration()).has_value(); }

  // What it has written so far.
  std::string read_stdout() const;
  std::string read_stderr() const;

 private:
  const std::string stdout_path_;
  const std::string stderr_path_;
  pid_t pid_ = -1;
  int pidfd_ = -1;
  std::optional<ProcessExit> exit_;
};

// Runs a program to its end and returns its exit and output. A program that
// takes longer than the timeout is killed.
struct ProcessResult {
  ProcessExit exit;
  std::string out;
  std::string err;
};
ProcessResult run_process(const ChildProcess::Options& options,
                          absl::Duration timeout = absl::Seconds(60));

}  // namespace ferry
