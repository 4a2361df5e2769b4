#include "tests/benchmarks/host_bytes.h"

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
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
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (absl::StartsWith(line, "RssAnon:")) result.anonymous = bytes_of(line);
  }
  return result;
}

}  // namespace ferry
