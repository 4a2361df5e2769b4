#include <cstdint>

#include "pipelines/safetensors/dtype.h"
#include "pipelines/safetensors/header.h"
#include "pipelines/safetensors/index.h"
#include "tests/fuzz/fuzz_targets.h"

namespace ferry {
namespace {

void check_header(absl::string_view input) {
  const auto size = static_cast<int64_t>(input.size());
  const auto entries = parse_safetensors_header(input, size);
  if (!entries.ok()) {
    require(absl::IsInvalidArgument(entries.status()), "INVALID_ARGUMENT");
    require(entries.status().message().size() < 8192, "a message is short");
    return;
  }
  // The tensors fill what follows the header, in this order.
  int64_t next = *safetensors_header_end(input, size);
  for (const SafetensorsEntry& entry : *entries) {
    require(entry.offset == next && entry.bytes >= 0, "no gap, no overlap");
    int64_t elements = 1;
    for (const int64_t length : entry.shape) {
      require(length >= 0, "lengths are not negative");
      elements *= length;
    }
    require(elements * element_bytes(entry.dtype) == entry.bytes,
            "the shape fills the bytes");
    next += entry.bytes;
  }
  require(next == size, "the tensors end where the file does");
}

}  // namespace

// A safetensors file, and the index of several.
void fuzz_safetensors(absl::string_view input) {
  check_header(input);
  const auto index = parse_safetensors_index(input);
  if (!index.ok()) {
    require(absl::IsInvalidArgument(index.status()), "INVALID_ARGUMENT");
    return;
  }
  for (const auto& [tensor, file] : *index) {
    require(weight_file_defect(file).empty(), "files stay in the package");
  }
}

}  // namespace ferry
