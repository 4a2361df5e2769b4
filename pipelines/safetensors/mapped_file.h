#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ferry {

// A file, mapped into memory: readable, never writable. Nothing is read before
// it is touched, and the system may take pages back at any time.
//
// The file must not shrink as long as it is mapped: to touch what is gone ends
// the process (SIGBUS).
//
// Ownership: unmaps when it is destroyed. Thread-safe.
class MappedFile {
 public:
  // `name` is what errors call it. NOT_FOUND: there is no such file;
  // INVALID_ARGUMENT: it is no regular file, or cannot be read or mapped.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> open(
      const std::filesystem::path& path, std::string name);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& name() const { return name_; }
  const char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  absl::string_view view() const {
    return {data_, static_cast<size_t>(bytes_)};
  }

 private:
  MappedFile(std::string name, const char* data, int64_t bytes)
      : name_(std::move(name)), data_(data), bytes_(bytes) {}

  const std::string name_;
  // Null when the file is empty.
  const char* const data_;
  const int64_t bytes_;
};

}  // namespace ferry
