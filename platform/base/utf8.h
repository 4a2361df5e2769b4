#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace ferry {

// Bytes of the character that `text` starts with, as its first byte tells: 1
// to 4, at most text.size(). REQUIRES: `text` is not empty.
size_t utf8_lead_length(absl::string_view text);

// Bytes of the valid UTF-8 character that `text` starts with, or 0 when there
// is none. REQUIRES: `text` is not empty.
size_t utf8_valid_length(absl::string_view text);

// Whether the whole text is valid UTF-8.
bool is_utf8(absl::string_view text);

}  // namespace ferry
