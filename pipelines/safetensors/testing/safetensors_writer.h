#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ferry {

// A tensor of a safetensors file that is to be written.
struct TensorToWrite {
  std::string name;
  // As files write it: "F32".
  std::string dtype;
  std::vector<int64_t> shape;
  // Row-major.
  absl::string_view data;
};

// The length and the JSON text that a file starts with, padded with blanks to a
// multiple of 64 bytes, and `odd_bytes` more.
std::string make_safetensors_header(const std::vector<TensorToWrite>& tensors,
                                    int odd_bytes = 0);

// A length and any text that stands for a header.
std::string with_header_length(absl::string_view header);

// Writes a file, and the directories that lead to it.
absl::Status write_safetensors(const std::filesystem::path& path,
                               const std::vector<TensorToWrite>& tensors,
                               int odd_bytes = 0);

}  // namespace ferry
