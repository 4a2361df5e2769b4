#include "tests/gpu/dry/report.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace ferry::dry {
namespace {

// Text as a JSON string. What it holds are names and numbers, and a path.
std::string quoted(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    json += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return json + '"';
}

std::string who() {
  return ", \"program\": " + quoted(program_invocation_short_name) +
         ", \"pid\": " + std::to_string(::getpid());
}

}  // namespace

Report::Report(std::string log) : log_(std::move(log)) {}

void Report::broke(const char* rule, const char* call,
                   const std::string& detail) {
  {
    MutexLock lock(&mutex_);
    ++broken_[rule];
  }
  write("{\"rule\": " + quoted(rule) + ", \"call\": " + quoted(call) +
        ", \"detail\": " + quoted(detail) + who() +
        ", \"thread\": " + std::to_string(::syscall(SYS_gettid)) + "}\n");
}

int64_t Report::broken(const char* rule) const {
  MutexLock lock(&mutex_);
  int64_t sum = 0;
  for (const auto& [name, times] : broken_) {
    if (rule == nullptr || name == rule) sum += times;
  }
  return sum;
}

void Report::count(const char* name, int64_t amount) {
  MutexLock lock(&mutex_);
  const auto found = counters_.find(name);
  if (found != counters_.end()) {
    found->second += amount;
  } else {
    counters_.emplace(name, amount);
  }
}

int64_t Report::counter(const std::string& name) const {
  MutexLock lock(&mutex_);
  const auto found = counters_.find(name);
  return found == counters_.end() ? 0 : found->second;
}

void Report::finish() {
  MutexLock lock(&mutex_);
  if (counters_.empty()) return;
  std::string line = "{\"report\": {";
  const char* separator = "";
  for (const auto& [name, value] : counters_) {
    line += separator + quoted(name) + ": " + std::to_string(value);
    separator = ", ";
  }
  write(line + "}" + who() + "}\n");
}

void Report::write(const std::string& line) const {
  if (log_.empty()) return;
  const int fd =
      ::open(log_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return;
  // One write of a line is whole.
  [[maybe_unused]] const ssize_t written =
      ::write(fd, line.data(), line.size());
  ::close(fd);
}

}  // namespace ferry::dry
