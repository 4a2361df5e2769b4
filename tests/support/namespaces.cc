#include "tests/support/namespaces.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "platform/base/check.h"
#include "platform/os/unique_fd.h"
#include "tests/support/processes.h"

namespace ferry {
namespace {

bool write_map(const char* path, const std::string& text) {
  const UniqueFd file(open(path, O_WRONLY | O_CLOEXEC));
  return write(file.get(), text.data(), text.size()) ==
         static_cast<ssize_t>(text.size());
}

}  // namespace

absl::Status enter_namespaces(int kinds) {
  FERRY_CHECK(has_one_thread());
  // A right that only root has, or root of a user namespace.
  if (unshare(kinds) == 0) return absl::OkStatus();
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWUSER | kinds) != 0) {
    return absl::ErrnoToStatus(errno, "no namespace can be made");
  }
  if (!write_map("/proc/self/setgroups", "deny") ||
      !write_map("/proc/self/uid_map", absl::StrCat("0 ", user, " 1")) ||
      !write_map("/proc/self/gid_map", absl::StrCat("0 ", group, " 1"))) {
    return absl::ErrnoToStatus(errno, "no user namespace can be set up");
  }
  return absl::OkStatus();
}

}  // namespace ferry
