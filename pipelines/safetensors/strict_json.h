#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ferry {

// Parses one JSON object of objects that nests no deeper than `depth` levels,
// itself the first one. INVALID_ARGUMENT, as half a sentence: no UTF-8, no
// JSON (and from which byte on), a number beyond all types, no object, too
// deep, or keys of the first two levels that stand there twice.
absl::StatusOr<nlohmann::json> parse_strict_json(absl::string_view text,
                                                 int depth);

}  // namespace ferry
