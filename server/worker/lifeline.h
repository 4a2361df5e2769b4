#pragma once

#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "platform/os/unique_fd.h"

namespace ferry {

// Ends this process as soon as ferryd is gone: the other end of a pipe is held
// by ferryd alone, and the kernel closes it however ferryd ends. Of a worker
// that has dialled ferryd it is the connection, which ferryd may end, too.
//
// The pipe stands beside the kernel's parent-death signal, which a changed
// parent (a debugger, a wrapper script) would lose.
//
// Threads: has one of its own; it calls _exit, since nothing that could be
//   cleaned up is wanted any more.
class Lifeline {
 public:
  // Takes the pipe's reading end, or a socket whose data others read.
  // `exit_code` is how the process ends. An error: no descriptor is left.
  // Throws std::system_error where there is no thread. REQUIRES: end.valid().
  static absl::StatusOr<std::unique_ptr<Lifeline>> create(UniqueFd end,
                                                          int exit_code = 0);
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

 private:
  Lifeline(UniqueFd end, int exit_code, UniqueFd stop);

  void watch();

  const UniqueFd end_;
  const int exit_code_;
  const UniqueFd stop_;
  std::thread thread_;
};

}  // namespace ferry
