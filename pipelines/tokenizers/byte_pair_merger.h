#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"

namespace ferry {

// What a byte-pair model says of the concatenation of two symbols.
struct MergeRule {
  // Higher is merged earlier.
  float score = 0;
  // The piece serves to build longer ones only, and is taken apart again.
  bool unused = false;
};

// A symbol to start from.
struct StartSymbol {
  absl::string_view text;
  // It is never merged.
  bool frozen = false;
};

// Merges neighbouring symbols, the best rule first, of equal ones the
// leftmost, until no rule applies; then takes unused pieces apart. The symbols
// are consecutive parts of one text. `find_rule` returns nothing for what is
// no piece.
std::vector<absl::string_view> merge_byte_pairs(
    const std::vector<StartSymbol>& start,
    const std::function<std::optional<MergeRule>(absl::string_view)>&
        find_rule);

}  // namespace ferry
