#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ferry {

// Parses one JSON object of objects that nests no deeper than `depth` levels,
// itself the first one. It takes what Python's json module and Rust's
// serde_json both take: nothing but blanks stands after the object, and no
// byte order mark before it. Unlike them it refuses keys of the first two
// levels that stand there twice, since one of two values would be lost.
//
// INVALID_ARGUMENT, as half a sentence, says what is wrong, and from which byte
// on. A Git LFS pointer and a byte order mark are called by name.
absl::StatusOr<nlohmann::json> parse_strict_json(absl::string_view text,
                                                 int depth);

}  // namespace ferry
