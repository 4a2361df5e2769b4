#include "platform/device/check_host_arena.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "platform/device/mapping.h"

namespace ferry {

absl::Status check_host_arena(int64_t bytes, absl::string_view label) {
  if (bytes > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("host memory: \"", label, "\" asks for ", bytes,
                   " bytes; an arena has at least one"));
}

absl::Status check_host_file(int fd, int64_t offset, int64_t bytes,
                             absl::string_view label) {
  if (bytes <= 0 || offset < 0 || offset != round_to_pages(offset)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "host memory: \"", label, "\" maps ", bytes, " bytes from ", offset,
        "; it must be at least one, from a multiple of the page size"));
  }
  struct stat status = {};
  if (::fstat(fd, &status) != 0 || status.st_size - offset < bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "host memory: \"", label, "\" maps ", bytes, " bytes from ", offset,
        " of a file of ", status.st_size, " bytes"));
  }
  return absl::OkStatus();
}

}  // namespace ferry
