#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ferry {

// What a forked child does before and until exec, prepared in the parent: the
// child may not allocate, since another thread of the parent may have held the
// allocator's lock when it forked.
struct ChildSetup {
  // nullptr at the end.
  std::vector<char*> argv;
  std::vector<int> inherited;
  // Room for as many descriptors as `inherited`, used by the child.
  std::vector<int> scratch;
  int stdout_fd = -1;
  int stderr_fd = -1;
  // Closed by exec; takes a ChildFailure when there is none.
  int error_fd = -1;
  pid_t parent = 0;
  // Written to /proc/self/oom_score_adj; empty: left alone.
  std::string oom_score_adj;
};

// Why the child could not execute the program.
struct ChildFailure {
  int error_number;
  // A literal in the child, so valid in the parent too.
  const char* step;
};

// Runs in the child, calls only async-signal-safe functions, and ends in exec
// or _exit.
[[noreturn]] void run_child(ChildSetup& setup);

}  // namespace ferry
