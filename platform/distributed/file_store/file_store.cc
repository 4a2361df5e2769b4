#include "platform/distributed/file_store/file_store.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "platform/base/status_macros.h"
#include "platform/distributed/deadline.h"
#include "platform/os/atomic_file.h"
#include "platform/os/unique_fd.h"

namespace ferry {
namespace {

// Beside it a temporary file has room for its suffix.
constexpr size_t kMaxNameBytes = 245;

absl::Status error_of(absl::string_view action, const std::string& path) {
  return absl::ErrnoToStatus(errno,
                             absl::StrCat("store: cannot ", action, " ", path));
}

// The file's content, or nothing where there is none.
absl::StatusOr<std::optional<std::string>> read_file(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    if (errno == ENOENT) return std::nullopt;
    return error_of("open", path);
  }
  std::string content;
  std::array<char, 4096> buffer;
  while (true) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return error_of("read", path);
    if (count == 0) return content;
    content.append(buffer.data(), static_cast<size_t>(count));
  }
}

// Becomes readable when a file of the directory gets its name.
absl::StatusOr<UniqueFd> watch(const std::string& directory) {
  UniqueFd watcher(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!watcher.valid() ||
      ::inotify_add_watch(watcher.get(), directory.c_str(), IN_MOVED_TO) < 0) {
    return error_of("watch", directory);
  }
  return watcher;
}

// Blocks until a file has got its name since the last call, or the deadline.
absl::Status await_file(const UniqueFd& watcher, const Deadline& deadline,
                        const std::string& directory) {
  const absl::Duration left = std::min(deadline.left(), absl::Hours(1));
  pollfd wait = {watcher.get(), POLLIN, 0};
  const auto milliseconds = static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
  if (::poll(&wait, 1, milliseconds) < 0 && errno != EINTR) {
    return error_of("wait for", directory);
  }
  std::array<char, 4096> events;
  while (::read(watcher.get(), events.data(), events.size()) > 0) {
  }
  return absl::OkStatus();
}

}  // namespace

FileStore::FileStore(std::string directory)
    : directory_(std::move(directory)) {}

absl::Status FileStore::set(absl::string_view key, absl::string_view value) {
  ASSIGN_OR_RETURN(const std::string path, path_of("value", key));
  return write_file_atomically(path, value);
}

absl::StatusOr<std::string> FileStore::get(absl::string_view key,
                                           absl::Duration timeout) {
  const Deadline deadline(timeout);
  ASSIGN_OR_RETURN(const std::string path, path_of("value", key));
  // Before the first look, so that no file comes unseen.
  ASSIGN_OR_RETURN(const UniqueFd watcher, watch(directory_));
  while (true) {
    // A value that is there in time counts, however late one looks.
    const bool is_last_look = deadline.has_passed();
    ASSIGN_OR_RETURN(std::optional<std::string> value, read_file(path));
    if (value) return *std::move(value);
    if (is_last_look) {
      return absl::DeadlineExceededError(absl::StrCat(
          "store ", directory_, ": key \"", key, "\" has no value after ",
          absl::FormatDuration(timeout)));
    }
    RETURN_IF_ERROR(await_file(watcher, deadline, directory_));
  }
}

absl::StatusOr<int64_t> FileStore::add(absl::string_view key, int64_t amount) {
  ASSIGN_OR_RETURN(const std::string path, path_of("number", key));
  const std::string lock_path = absl::StrCat(directory_, "/lock");
  // The lock goes with the descriptor, and so with a process that dies.
  const UniqueFd lock(
      ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!lock.valid()) return error_of("open", lock_path);
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return error_of("lock", lock_path);
  }
  ASSIGN_OR_RETURN(const std::optional<std::string> content, read_file(path));
  int64_t sum = 0;
  if (content && !absl::SimpleAtoi(*content, &sum)) {
    return absl::InternalError(
        absl::StrCat("store: ", path, " holds no number"));
  }
  sum += amount;
  RETURN_IF_ERROR(write_file_atomically(path, absl::StrCat(sum)));
  return sum;
}

absl::StatusOr<std::string> FileStore::path_of(absl::string_view kind,
                                               absl::string_view key) const {
  std::string name = absl::StrCat(kind, "-");
  for (const char c : key) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c))) {
      name.push_back(c);
    } else {
      absl::StrAppend(
          &name, "%",
          absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
  }
  if (name.size() <= kMaxNameBytes) {
    return absl::StrCat(directory_, "/", name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "store ", directory_, ": key \"", key, "\" makes a file name of ",
      name.size(), " bytes; at most ", kMaxNameBytes, " are possible"));
}

}  // namespace ferry
