#include "tests/support/processes.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/files.h"

namespace ferry {
namespace {

std::string read_link(const std::string& path) {
  std::error_code error;
  return std::filesystem::read_symlink(path, error).string();
}

struct Stat {
  std::string name;
  char state = 0;
  pid_t parent = 0;
};

std::optional<Stat> read_stat(pid_t pid) {
  const auto text = read_file(absl::StrCat("/proc/", pid, "/stat"));
  if (!text.has_value()) return std::nullopt;
  // The name stands in parentheses and may itself hold spaces and parentheses.
  const size_t start = text->find('(');
  const size_t end = text->rfind(')');
  if (start == std::string::npos || end == std::string::npos) {
    return std::nullopt;
  }
  Stat stat;
  stat.name = text->substr(start + 1, end - start - 1);
  std::istringstream fields(text->substr(end + 1));
  if (!(fields >> stat.state >> stat.parent)) return std::nullopt;
  return stat;
}

}  // namespace

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

std::vector<pid_t> find_children(pid_t parent) {
  std::vector<pid_t> children;
  for (const std::string& name : list_directory("/proc")) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(name, &pid)) continue;
    const auto stat = read_stat(pid);
    if (stat.has_value() && stat->parent == parent) children.push_back(pid);
  }
  return children;
}

bool has_one_thread() {
#if __has_feature(thread_sanitizer)
  constexpr size_t kThreads = 2;
#else
  constexpr size_t kThreads = 1;
#endif
  return list_directory("/proc/self/task").size() <= kThreads;
}

std::string program_name(pid_t pid) {
  const auto stat = read_stat(pid);
  return stat.has_value() ? stat->name : "";
}

std::vector<std::string> command_line(pid_t pid) {
  const std::string text =
      read_file(absl::StrCat("/proc/", pid, "/cmdline")).value_or("");
  // Each ends in NUL.
  std::vector<std::string> arguments = absl::StrSplit(text, '\0');
  arguments.pop_back();
  return arguments;
}

bool is_worker(pid_t pid) {
  const std::string name = program_name(pid);
  return name == "ferry_worker" || name == "scripted_worker";
}

char process_state(pid_t pid) {
  const auto stat = read_stat(pid);
  return stat.has_value() ? stat->state : 0;
}

std::vector<std::string> open_descriptors(pid_t pid) {
  const std::string directory = absl::StrCat("/proc/", pid, "/fd");
  std::vector<std::string> targets;
  for (const std::string& name : list_directory(directory)) {
    const std::string target = read_link(absl::StrCat(directory, "/", name));
    if (!target.empty()) targets.push_back(target);
  }
  return targets;
}

int count_sockets(pid_t pid) {
  int count = 0;
  for (const std::string& target : open_descriptors(pid)) {
    count += absl::StartsWith(target, "socket:");
  }
  return count;
}

std::vector<std::string> shared_memory_files(pid_t pid) {
  std::vector<std::string> files;
  const auto add = [&files](const std::string& text) {
    const size_t start = text.find("/dev/shm/");
    // Names of removed files end in " (deleted)".
    if (start != std::string::npos && !absl::StrContains(text, " (deleted)")) {
      files.push_back(text.substr(start));
    }
  };
  for (const std::string& target : open_descriptors(pid)) add(target);
  std::istringstream maps(
      read_file(absl::StrCat("/proc/", pid, "/maps")).value_or(""));
  for (std::string line; std::getline(maps, line);) add(line);
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

}  // namespace ferry
