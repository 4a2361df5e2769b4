#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ferry {

// Rounded up to whole pages.
int64_t round_to_pages(int64_t bytes);

// Memory that is a file of its own, so that it has a name in
// /proc/PID/smaps. Owns the descriptor; mappings live on without it.
// Move-only. Not thread-safe.
class MemoryFile {
 public:
  // RESOURCE_EXHAUSTED: the system gives no more. Pages take memory when they
  // are touched.
  static absl::StatusOr<MemoryFile> create(const char* name, int64_t bytes);
  ~MemoryFile();
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&& other) = delete;

  int fd() const { return fd_; }

 private:
  explicit MemoryFile(int fd) : fd_(fd) {}

  int fd_;
};

// Owns addresses: the pages of a file, shared. Move-only. Not thread-safe.
class Mapping {
 public:
  Mapping() = default;
  // `protection` as mmap takes it. RESOURCE_EXHAUSTED: the system gives no
  // more; INVALID_ARGUMENT: the file cannot be mapped so.
  static absl::StatusOr<Mapping> map(int fd, int64_t offset, int64_t bytes,
                                     int protection);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  char* data() const { return static_cast<char*>(data_); }
  int64_t bytes() const { return bytes_; }
  absl::Status protect(int protection);

 private:
  Mapping(void* data, int64_t bytes) : data_(data), bytes_(bytes) {}

  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace ferry
