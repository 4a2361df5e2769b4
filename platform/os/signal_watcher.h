#pragma once

#include <signal.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "platform/os/unique_fd.h"

namespace ferry {

// Turns signals into calls on an ordinary thread, and ignores SIGPIPE.
//
// Blocks the signals in the calling thread, and so in those that it starts:
// create it first in main, before any other thread, so that a signal that comes
// while the program starts is not lost.
//
// Ownership: the destructor ends the thread and unblocks the signals in the
//   thread that calls it, which must be the one that created the watcher.
// Threads: the callback runs on the watcher's thread, one call after the other.
// Errors: create() fails when the system refuses a descriptor or a thread.
class SignalWatcher {
 public:
  static absl::StatusOr<std::unique_ptr<SignalWatcher>> create(
      const std::vector<int>& signals,
      std::function<void(int signal)> callback);

  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  SignalWatcher(UniqueFd signal_fd, UniqueFd stop_fd, const sigset_t& old_mask,
                std::function<void(int)> callback);

  void run();

  // Constant after construction.
  const UniqueFd signal_fd_;
  const UniqueFd stop_fd_;
  const sigset_t old_mask_;
  const std::function<void(int)> callback_;
  std::thread thread_;
};

}  // namespace ferry
