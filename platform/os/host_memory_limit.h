#pragma once

#include <cstdint>
#include <string>

namespace ferry {

// Where the system says how much memory is left; tests give other places.
struct HostMemoryPaths {
  std::string meminfo = "/proc/meminfo";
  std::string statm = "/proc/self/statm";
  std::string self_cgroup = "/proc/self/cgroup";
  std::string cgroup_root = "/sys/fs/cgroup";
};

// Host memory that this process can still take.
struct HostMemoryLimit {
  int64_t available_bytes = 0;
  // What limits it: "MemAvailable", "cgroup /pod/box", "RLIMIT_AS".
  std::string limited_by;
};

// The least of what the machine has available, of what each cgroup of this
// process and its parents leaves (v2 memory.max, v1 memory.limit_in_bytes;
// inactive page cache counts as free, since it makes way), and of the address
// space that RLIMIT_AS leaves. What cannot be read does not limit; with
// nothing that does, it is the largest number and limited by "nothing".
HostMemoryLimit host_memory_limit(const HostMemoryPaths& paths = {});

}  // namespace ferry
