#include "pipelines/safetensors/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

absl::Status error(absl::string_view name, absl::string_view what) {
  const int number = errno;
  const std::string text =
      absl::StrCat(name, ": ", what, ": ", strerror(number));
  return number == ENOENT ? absl::NotFoundError(text)
                          : absl::InvalidArgumentError(text);
}

// Closes what is open at its end: a mapping needs no descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::open(
    const std::filesystem::path& path, std::string name) {
  // A pipe would block.
  const Descriptor file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return error(name, "cannot be opened");
  struct stat status = {};
  if (fstat(file.get(), &status) != 0) return error(name, "cannot be read");
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": is no regular file"));
  }
  void* data = nullptr;
  if (status.st_size > 0) {
    data = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ,
                MAP_SHARED, file.get(), 0);
    if (data == MAP_FAILED) return error(name, "cannot be mapped");
  }
  return std::shared_ptr<const MappedFile>(
      new MappedFile(std::move(name), static_cast<const char*>(data),
                     static_cast<int64_t>(status.st_size)));
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  munmap(const_cast<char*>(data_), static_cast<size_t>(bytes_));
}

}  // namespace ferry
