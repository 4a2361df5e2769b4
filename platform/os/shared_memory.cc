#include "platform/os/shared_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ferry {

absl::StatusOr<UniqueFd> make_shared_memory(const char* name) {
  UniqueFd file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.valid()) return file;
  return absl::ResourceExhaustedError(
      absl::StrCat("memfd_create: ", std::strerror(errno)));
}

}  // namespace ferry
