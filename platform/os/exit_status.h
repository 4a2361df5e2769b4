#pragma once

#include <string>

namespace ferry {

// How a process ended: a value.
class ExitStatus {
 public:
  static ExitStatus exited(int code) { return ExitStatus(code, 0); }
  static ExitStatus signaled(int signal) { return ExitStatus(-1, signal); }

  bool success() const { return code_ == 0; }
  // The code that it exited with, or −1 when a signal ended it.
  int code() const { return code_; }
  // The signal that ended it, or 0.
  int signal() const { return signal_; }

  // "exited with code 3", "killed by signal 9 (SIGKILL)".
  std::string to_string() const;

  friend bool operator==(const ExitStatus& a, const ExitStatus& b) {
    return a.code_ == b.code_ && a.signal_ == b.signal_;
  }

 private:
  ExitStatus(int code, int signal) : code_(code), signal_(signal) {}

  int code_;
  int signal_;
};

}  // namespace ferry
