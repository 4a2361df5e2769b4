#pragma once

#include <thread>

#include "platform/os/unique_fd.h"

namespace ferry {

// Ends this process as soon as ferryd is gone: the other end of the pipe is
// held by ferryd alone, and the kernel closes it however ferryd ends.
//
// It stands beside the kernel's parent-death signal, which a changed parent
// (a debugger, a wrapper script) would lose.
//
// Threads: has one of its own; it calls _exit, since nothing that could be
//   cleaned up is wanted any more.
class Lifeline {
 public:
  // Takes the pipe's reading end. REQUIRES: valid.
  explicit Lifeline(UniqueFd read_end);
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

 private:
  void watch();

  const UniqueFd read_end_;
  const UniqueFd stop_;
  std::thread thread_;
};

}  // namespace ferry
