#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipelines/safetensors/header.h"
#include "pipelines/safetensors/mapped_file.h"

namespace ferry {

// A tensor in a mapped safetensors file.
struct StoredTensor {
  SafetensorsEntry entry;
  std::shared_ptr<const MappedFile> file;

  const char* data() const { return file->data() + entry.offset; }
};

// Maps `directory/file`, a safetensors file or the .index.json of several, and
// returns all tensors. Errors call files by their paths relative to
// `directory`.
//
// INVALID_ARGUMENT names everything that is wrong with the files, and with an
// index: files that are missing, tensors that are not in their file, and
// tensors of the files that the index lacks.
absl::StatusOr<std::vector<StoredTensor>> read_weight_files(
    const std::filesystem::path& directory, const std::string& file);

}  // namespace ferry
