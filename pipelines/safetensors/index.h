#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ferry {

// Larger ones are refused.
inline constexpr int64_t kMaxIndexBytes = 64 << 20;

// Reads the index of a sharded model (NAME.safetensors.index.json): for each
// tensor the file that holds it, relative to the index.
//
// INVALID_ARGUMENT names everything that is wrong: no JSON, no weight_map, and
// files that are no safetensors files below the index's directory. Pickled
// ones (.bin, .ckpt and the like) are refused by name.
absl::StatusOr<std::map<std::string, std::string>> parse_safetensors_index(
    absl::string_view text);

// What is wrong with the name of a weight file; empty when nothing is. It must
// be relative, without "..", and end in ".safetensors".
std::string weight_file_defect(absl::string_view file);

// Whether weight_file_defect() would refuse the file as a pickled one.
bool is_pickled_weight_file(absl::string_view file);

}  // namespace ferry
