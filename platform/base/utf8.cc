#include "platform/base/utf8.h"

#include <algorithm>
#include <cstdint>

#include "platform/base/check.h"

namespace ferry {

size_t utf8_lead_length(absl::string_view text) {
  FERRY_CHECK(!text.empty());
  const uint8_t lead = static_cast<uint8_t>(text.front());
  const size_t length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return std::min(length, text.size());
}

size_t utf8_valid_length(absl::string_view text) {
  FERRY_CHECK(!text.empty());
  const uint8_t lead = static_cast<uint8_t>(text.front());
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<uint8_t>(text[i]) & 0xC0) != 0x80) return 0;
  }
  const uint8_t second = static_cast<uint8_t>(text[1]);
  const bool overlong =
      (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second > 0x9F;
  const bool too_large = lead == 0xF4 && second > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

bool is_utf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t length = utf8_valid_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace ferry
