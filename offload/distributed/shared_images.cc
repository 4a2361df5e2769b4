#include "offload/distributed/shared_images.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "platform/base/status_macros.h"
#include "platform/device/mapping.h"

namespace ferry {

absl::StatusOr<HostArena> SharedImages::add(
    Device& device, int64_t bytes, absl::string_view label,
    absl::FunctionRef<void(char* data)> fill) {
  if (writes_) RETURN_IF_ERROR(write(round_to_pages(bytes), fill));
  ASSIGN_OR_RETURN(HostArena arena,
                   device.map_host_file(file_, end_, bytes, label));
  end_ += round_to_pages(bytes);
  return arena;
}

absl::Status SharedImages::write(int64_t bytes,
                                 absl::FunctionRef<void(char* data)> fill) {
  if (::ftruncate(file_, end_ + bytes) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("shared host memory of ", end_ + bytes,
                     " bytes: ", std::strerror(errno)));
  }
  // Gone when it is filled: nobody can write to an image by mistake.
  ASSIGN_OR_RETURN(const Mapping image,
                   Mapping::map(file_, end_, bytes, PROT_READ | PROT_WRITE));
  fill(image.data());
  return absl::OkStatus();
}

absl::Status SharedImages::seal(int file) {
  if (::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("sealing shared host memory: ", std::strerror(errno)));
}

absl::Status SharedImages::clear(int file) {
  if (::ftruncate(file, 0) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("clearing shared host memory: ", std::strerror(errno)));
}

}  // namespace ferry
