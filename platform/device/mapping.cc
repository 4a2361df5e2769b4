#include "platform/device/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ferry {
namespace {

absl::Status system_error(absl::string_view call, int64_t bytes) {
  const int error = errno;
  const std::string message =
      absl::StrCat(call, " of ", bytes, " bytes: ", std::strerror(error));
  if (error == EINVAL || error == EBADF || error == EACCES || error == ENODEV) {
    return absl::InvalidArgumentError(message);
  }
  return absl::ResourceExhaustedError(message);
}

}  // namespace

int64_t round_to_pages(int64_t bytes) {
  static const int64_t kPage = ::sysconf(_SC_PAGESIZE);
  return (bytes + kPage - 1) / kPage * kPage;
}

absl::StatusOr<MemoryFile> MemoryFile::create(const char* name, int64_t bytes) {
  const int fd = ::memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return system_error("memfd_create", bytes);
  MemoryFile file(fd);
  if (::ftruncate(fd, bytes) != 0) return system_error("ftruncate", bytes);
  return file;
}

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) ::close(fd_);
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

absl::StatusOr<Mapping> Mapping::map(int fd, int64_t offset, int64_t bytes,
                                     int protection) {
  void* const data = ::mmap(nullptr, static_cast<size_t>(bytes), protection,
                            MAP_SHARED | MAP_NORESERVE, fd, offset);
  if (data == MAP_FAILED) return system_error("mmap", bytes);
  return Mapping(data, bytes);
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(bytes_));
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

absl::Status Mapping::protect(int protection) {
  if (::mprotect(data_, static_cast<size_t>(bytes_), protection) != 0) {
    return system_error("mprotect", bytes_);
  }
  return absl::OkStatus();
}

}  // namespace ferry
