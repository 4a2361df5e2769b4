#include "tests/support/host_bytes.h"

#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace ferry {
namespace {

constexpr char kHostArena[] = "/memfd:ferry-host";

// Of a line such as `Pss:   12 kB`.
int64_t bytes_of(absl::string_view line) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  int64_t kib = 0;
  if (words.size() < 2 || !absl::SimpleAtoi(words[1], &kib)) return 0;
  return kib << 10;
}

// The named fields of /proc/PID/status, in their order, in bytes.
std::vector<int64_t> read_status(pid_t pid,
                                 const std::vector<std::string>& names) {
  std::vector<int64_t> result(names.size());
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (absl::StartsWith(line, names[i])) result[i] = bytes_of(line);
    }
  }
  return result;
}

// The file that a mapping's first line in smaps names; empty for other lines.
absl::string_view file_of(absl::string_view line) {
  const size_t slash = line.find('/');
  // Fields of a mapping begin with capitals.
  if (slash == absl::string_view::npos || absl::ascii_isupper(line[0])) {
    return "";
  }
  return line.substr(slash);
}

}  // namespace

HostBytes& HostBytes::operator+=(const HostBytes& other) {
  arenas += other.arenas;
  files += other.files;
  anonymous += other.anonymous;
  return *this;
}

std::string describe(const HostBytes& bytes) {
  return absl::StrFormat(
      "%.1f MB in host arenas, %.1f MB of mapped files, %.1f MB of other "
      "memory",
      bytes.arenas / 1e6, bytes.files / 1e6, bytes.anonymous / 1e6);
}

int64_t weight_bytes(const v1::Pipeline& pipeline) {
  int64_t bytes = 0;
  for (const v1::ComponentReport& component : pipeline.offload().components()) {
    bytes += component.bytes();
  }
  return bytes;
}

HostBytes read_host_bytes(pid_t pid, const std::string& weights) {
  HostBytes result;
  std::ifstream smaps(absl::StrCat("/proc/", pid, "/smaps"));
  int64_t* sum = nullptr;
  for (std::string line; std::getline(smaps, line);) {
    if (!absl::ascii_isupper(line[0])) {
      const absl::string_view file = file_of(line);
      sum = nullptr;
      if (absl::StartsWith(file, kHostArena)) sum = &result.arenas;
      if (absl::StartsWith(file, weights)) sum = &result.files;
    } else if (sum != nullptr && absl::StartsWith(line, "Pss:")) {
      *sum += bytes_of(line);
    }
  }
  result.anonymous = read_status(pid, {"RssAnon:"})[0];
  return result;
}

std::optional<HostBytes> sample_host_bytes(pid_t pid) {
  HostBytes result;
  std::ifstream maps(absl::StrCat("/proc/", pid, "/maps"));
  std::set<ino_t> seen;
  bool mapped = false;
  for (std::string line; std::getline(maps, line);) {
    mapped = true;
    if (!absl::StartsWith(file_of(line), kHostArena)) continue;
    struct stat file = {};
    const std::string path = absl::StrCat("/proc/", pid, "/map_files/",
                                          line.substr(0, line.find(' ')));
    if (stat(path.c_str(), &file) != 0) {
      // It was unmapped just now.
      if (errno == ENOENT) continue;
      return std::nullopt;
    }
    // In units of 512 bytes, whatever the file system.
    if (seen.insert(file.st_ino).second) result.arenas += file.st_blocks * 512;
  }
  if (!mapped) return std::nullopt;
  const std::vector<int64_t> status =
      read_status(pid, {"RssAnon:", "RssFile:"});
  result.anonymous = status[0];
  result.files = status[1];
  return result;
}

}  // namespace ferry
