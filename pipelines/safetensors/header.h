#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pipelines/safetensors/dtype.h"

namespace ferry {

// A longer one is refused, as by the reference implementation.
inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// A tensor of a safetensors file: dense, row-major.
struct SafetensorsEntry {
  std::string name;
  SafetensorsDtype dtype = SafetensorsDtype::kU8;
  std::vector<int64_t> shape;
  // Of the file: its first byte, and how many. The first byte need not be a
  // multiple of the element's size.
  int64_t offset = 0;
  int64_t bytes = 0;
};

// Reads the header of a safetensors file: eight bytes of length, little-endian,
// a JSON object, and then the data, which the tensors fill without gaps and
// overlaps. `start` is the file's beginning, which holds the header at least;
// `file_bytes` is the size of all of it. Returns the tensors in the order of
// their data.
//
// As the reference implementation it takes `"__metadata__": null` and has no
// use for further keys of a tensor; unlike it, it refuses a name twice.
//
// INVALID_ARGUMENT names every tensor that is wrong, and what would be right.
absl::StatusOr<std::vector<SafetensorsEntry>> parse_safetensors_header(
    absl::string_view start, int64_t file_bytes);

// How many bytes at a file's beginning parse_safetensors_header() needs, given
// the first eight; errors as there.
absl::StatusOr<int64_t> safetensors_header_end(absl::string_view start,
                                               int64_t file_bytes);

}  // namespace ferry
