#pragma once

#include <optional>
#include <string>

namespace ferry {

// Where the system says what a process may use; tests give other places.
struct CpuQuotaPaths {
  std::string self_cgroup = "/proc/self/cgroup";
  std::string cgroup_root = "/sys/fs/cgroup";
};

// The CPUs that the cgroup of this process may use at once (1.5: one and a
// half), the least over it and its parents, of cgroup v2 (cpu.max) or v1
// (cpu.cfs_quota_us). Nothing when it is not limited or cannot be read.
std::optional<double> cgroup_cpu_quota(const CpuQuotaPaths& paths = {});

// Threads of one operator when nobody says how many: the CPUs that this process
// may run on, or its quota rounded down if that is less, shared among `ranks`
// processes; at least 1.
int default_intra_op_threads(int ranks, const CpuQuotaPaths& paths = {});

}  // namespace ferry
