#include "tests/fault/full_disk.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "platform/base/status_macros.h"
#include "platform/os/unique_fd.h"
#include "tests/support/files.h"
#include "tests/support/namespaces.h"

namespace ferry {
namespace {

constexpr char kFiller[] = "/filler";

absl::Status fill(const std::string& directory) {
  const std::string path = directory + kFiller;
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::string block(4096, 'x');
  while (write(file.get(), block.data(), block.size()) > 0) {
  }
  if (errno == ENOSPC) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "the disk does not get full");
}

}  // namespace

absl::StatusOr<std::string> mount_full_disk() {
  const std::string directory = make_directory("full");
  RETURN_IF_ERROR(enter_namespaces(CLONE_NEWNS));
  // What is mounted here must not show elsewhere.
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=64k") != 0) {
    return absl::ErrnoToStatus(errno, "no tmpfs can be mounted");
  }
  RETURN_IF_ERROR(fill(directory));
  return directory;
}

void free_disk(const std::string& directory) {
  unlink((directory + kFiller).c_str());
}

absl::Status refill_disk(const std::string& directory) {
  for (const std::string& name : list_directory(directory)) {
    unlink(absl::StrCat(directory, "/", name).c_str());
  }
  return fill(directory);
}

}  // namespace ferry
