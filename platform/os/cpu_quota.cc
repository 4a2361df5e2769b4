#include "platform/os/cpu_quota.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace ferry {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Quota ÷ period, both in µs, of "<quota> <period>".
std::optional<double> parse_quota(absl::string_view text) {
  const std::vector<std::string> parts =
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  double quota = 0;
  double period = 0;
  if (parts.size() != 2 || !absl::SimpleAtod(parts[0], &quota) ||
      !absl::SimpleAtod(parts[1], &period) || quota <= 0 || period <= 0) {
    return std::nullopt;  // "max", −1 or no such file: not limited.
  }
  return quota / period;
}

std::optional<double> quota_of_directory(const std::string& directory,
                                         bool v2) {
  if (v2) return parse_quota(read_text(absl::StrCat(directory, "/cpu.max")));
  return parse_quota(
      absl::StrCat(read_text(absl::StrCat(directory, "/cpu.cfs_quota_us")), " ",
                   read_text(absl::StrCat(directory, "/cpu.cfs_period_us"))));
}

// The least quota of `group` and its parents below `mount`.
std::optional<double> least_quota(const std::string& mount, std::string group,
                                  bool v2) {
  std::optional<double> least;
  while (true) {
    const std::optional<double> quota =
        quota_of_directory(absl::StrCat(mount, group), v2);
    if (quota.has_value()) least = std::min(least.value_or(*quota), *quota);
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return least;
    group.resize(slash);
  }
}

bool has_cpu_controller(absl::string_view controllers) {
  for (const absl::string_view name : absl::StrSplit(controllers, ',')) {
    if (name == "cpu") return true;
  }
  return false;
}

}  // namespace

std::optional<double> cgroup_cpu_quota(const CpuQuotaPaths& paths) {
  std::optional<double> least;
  const std::string text = read_text(paths.self_cgroup);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    // <hierarchy>:<controllers>:<path>, no controllers for v2.
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool v2 = parts[1].empty();
    if (!v2 && !has_cpu_controller(parts[1])) continue;
    const std::string mount =
        v2 ? paths.cgroup_root : absl::StrCat(paths.cgroup_root, "/cpu");
    const std::optional<double> quota =
        least_quota(mount, std::string(absl::StripSuffix(parts[2], "/")), v2);
    if (quota.has_value()) least = std::min(least.value_or(*quota), *quota);
  }
  return least;
}

int default_intra_op_threads(int ranks, const CpuQuotaPaths& paths) {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails only where there are more CPUs than the set has bits.
  int cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
                                                          : CPU_SETSIZE;
  const std::optional<double> quota = cgroup_cpu_quota(paths);
  if (quota.has_value()) cpus = std::min(cpus, static_cast<int>(*quota));
  return std::max(1, cpus / std::max(1, ranks));
}

}  // namespace ferry
