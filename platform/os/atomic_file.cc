#include "platform/os/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "platform/base/status_macros.h"
#include "platform/os/unique_fd.h"

namespace ferry {
namespace {

absl::Status error_of(const std::string& path, absl::string_view action) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", action, " ", path));
}

// The umask can be read only by setting it, which other threads would see.
mode_t mode_of_new_files() {
  FILE* const file = fopen("/proc/self/status", "re");
  if (file == nullptr) return 0644;
  char line[256];
  unsigned mask = 022;
  while (fgets(line, sizeof(line), file) != nullptr) {
    if (sscanf(line, "Umask: %o", &mask) == 1) break;
  }
  fclose(file);
  return 0666 & ~mask;
}

absl::Status write_all(int fd, const std::string& path,
                       absl::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return error_of(path, "write");
    content.remove_prefix(static_cast<size_t>(written));
  }
  if (fchmod(fd, mode_of_new_files()) != 0) {
    return error_of(path, "set the permissions of");
  }
  if (fsync(fd) != 0) return error_of(path, "write");
  return absl::OkStatus();
}

}  // namespace

absl::Status write_file_atomically(const std::string& path,
                                   absl::string_view content) {
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  UniqueFd file(mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.valid()) return error_of(path, "create a file beside");
  absl::Status status = write_all(file.get(), path, content);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = error_of(path, "replace");
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  // Makes the new name last; a file system that cannot still has the file.
  std::string parent = std::filesystem::path(path).parent_path();
  if (parent.empty()) parent = ".";
  const UniqueFd directory(
      open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.valid()) fsync(directory.get());
  return absl::OkStatus();
}

}  // namespace ferry
