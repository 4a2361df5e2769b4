#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace ferry {

// Host memory of a process, in bytes, as far as it may hold weights.
struct HostBytes {
  // Its share of host arenas, and of the weight files that it has mapped.
  int64_t arenas = 0;
  int64_t files = 0;
  // Anonymous memory, in RAM.
  int64_t anonymous = 0;

  int64_t sum() const { return arenas + files + anonymous; }
};

// From /proc; zero when the process is gone. `weights` is the directory of its
// package.
HostBytes read_host_bytes(pid_t pid, const std::string& weights);

}  // namespace ferry
