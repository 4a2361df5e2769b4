#include "platform/os/host_memory_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "platform/base/saturating_math.h"

namespace ferry {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The size that a file holds; nothing for "max" or no such file.
std::optional<int64_t> read_number(const std::string& path) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(read_text(path), &number) || number < 0) {
    return std::nullopt;
  }
  return number;
}

// The size after a name, in lines of "<name> <number> …".
std::optional<int64_t> number_of(const std::string& text,
                                 absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> parts =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t number = 0;
    if (parts.size() >= 2 && parts[0] == name &&
        absl::SimpleAtoi(parts[1], &number) && number >= 0) {
      return number;
    }
  }
  return std::nullopt;
}

// Names of a memory controller's files.
struct Controller {
  const char* limit;
  const char* usage;
  const char* cache;
};

constexpr Controller kV1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                            "total_inactive_file"};
constexpr Controller kV2 = {"/memory.max", "/memory.current", "inactive_file"};

class LeastLimit {
 public:
  void add(std::optional<int64_t> bytes, std::string by) {
    if (!bytes || *bytes >= least_.available_bytes) return;
    least_ = {std::max<int64_t>(*bytes, 0), std::move(by)};
  }

  // `group` and its parents below `mount`.
  void add_cgroup(const std::string& mount, std::string group,
                  const Controller& controller) {
    while (true) {
      const std::string directory = absl::StrCat(mount, group);
      const auto limit = read_number(absl::StrCat(directory, controller.limit));
      const auto usage = read_number(absl::StrCat(directory, controller.usage));
      if (limit && usage) {
        const auto cache =
            number_of(read_text(absl::StrCat(directory, "/memory.stat")),
                      controller.cache);
        add(saturating_add(*limit, cache.value_or(0)) - *usage,
            absl::StrCat("cgroup ", group.empty() ? "/" : group));
      }
      const size_t slash = group.rfind('/');
      if (slash == std::string::npos) return;
      group.resize(slash);
    }
  }

  const HostMemoryLimit& least() const { return least_; }

 private:
  HostMemoryLimit least_ = {std::numeric_limits<int64_t>::max(), "nothing"};
};

bool has_memory_controller(absl::string_view controllers) {
  for (const absl::string_view name : absl::StrSplit(controllers, ',')) {
    if (name == "memory") return true;
  }
  return false;
}

// What the address space may still grow by.
std::optional<int64_t> address_space_left(const HostMemoryPaths& paths) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  // Its first number is the size in pages.
  const std::string text = read_text(paths.statm);
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  int64_t pages = 0;
  if (!absl::SimpleAtoi(parts[0], &pages) || pages < 0) return std::nullopt;
  const auto most = static_cast<rlim_t>(std::numeric_limits<int64_t>::max());
  return static_cast<int64_t>(std::min(limit.rlim_cur, most)) -
         saturating_multiply(pages, sysconf(_SC_PAGESIZE));
}

}  // namespace

HostMemoryLimit host_memory_limit(const HostMemoryPaths& paths) {
  LeastLimit least;
  const auto available = number_of(read_text(paths.meminfo), "MemAvailable:");
  if (available) {
    least.add(saturating_multiply(*available, 1024), "MemAvailable");
  }
  const std::string groups = read_text(paths.self_cgroup);
  for (const absl::string_view line : absl::StrSplit(groups, '\n')) {
    // <hierarchy>:<controllers>:<path>, no controllers for v2.
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::string group(absl::StripSuffix(parts[2], "/"));
    if (parts[1].empty()) {
      least.add_cgroup(paths.cgroup_root, group, kV2);
    } else if (has_memory_controller(parts[1])) {
      least.add_cgroup(absl::StrCat(paths.cgroup_root, "/memory"), group, kV1);
    }
  }
  least.add(address_space_left(paths), "RLIMIT_AS");
  return least.least();
}

}  // namespace ferry
