#include "platform/device/cpu/cpu_platform.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace ferry {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Value of the line "key:  123 kB", in bytes.
std::optional<int64_t> find_meminfo(absl::string_view text,
                                    absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, key) || !absl::ConsumePrefix(&line, ":")) {
      continue;
    }
    absl::ConsumeSuffix(&line, "kB");
    int64_t kibibytes = 0;
    if (absl::SimpleAtoi(line, &kibibytes)) return kibibytes * 1024;
  }
  return std::nullopt;
}

// A number that is alone in its file; nothing for "max" or without the file.
std::optional<int64_t> read_number(const std::filesystem::path& path) {
  int64_t number = 0;
  if (absl::SimpleAtoi(read_file(path), &number)) return number;
  return std::nullopt;
}

}  // namespace

absl::StatusOr<MemoryInfo> CpuPlatform::memory_info() const {
  const std::string text = read_file(files_.meminfo);
  const std::optional<int64_t> total = find_meminfo(text, "MemTotal");
  const std::optional<int64_t> available = find_meminfo(text, "MemAvailable");
  if (!total || !available) {
    return absl::InternalError(absl::StrCat(
        files_.meminfo.string(), " holds no MemTotal and MemAvailable"));
  }
  MemoryInfo info{*available, *total};
  if (const auto limit = read_number(files_.cgroup / "memory.max")) {
    const int64_t used =
        read_number(files_.cgroup / "memory.current").value_or(0);
    info.total_bytes = std::min(info.total_bytes, *limit);
    info.free_bytes =
        std::min(info.free_bytes, std::max<int64_t>(0, *limit - used));
  }
  return info;
}

std::string CpuPlatform::offload_unsupported_reason() const {
  return "its memory is the host's";
}

}  // namespace ferry
