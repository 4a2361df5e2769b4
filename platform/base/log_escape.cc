#include "platform/base/log_escape.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "platform/base/utf8.h"

namespace ferry {
namespace {

// The code point of a valid character.
uint32_t decode(absl::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first;
  uint32_t code = first & (0x7f >> character.size());
  for (const char byte : character.substr(1)) {
    code = (code << 6) | (static_cast<unsigned char>(byte) & 0x3f);
  }
  return code;
}

bool must_escape(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x2028 ||
         code == 0x2029;
}

void append_escape(uint32_t code, std::string* out) {
  switch (code) {
    case '\n':
      out->append("\\n");
      return;
    case '\r':
      out->append("\\r");
      return;
    case '\t':
      out->append("\\t");
      return;
    default:
      absl::StrAppendFormat(out, "\\u%04x", code);
  }
}

// `special` characters get a backslash; `invalid` stands before the hex digits
// of a byte that is no UTF-8.
void append_escaped(absl::string_view text, absl::string_view special,
                    absl::string_view invalid, std::string* out) {
  while (!text.empty()) {
    size_t length = utf8_valid_length(text);
    const uint32_t code = length == 0 ? 0 : decode(text.substr(0, length));
    if (length == 0) {
      absl::StrAppendFormat(out, "%s%02x", invalid,
                            static_cast<unsigned char>(text[0]));
      length = 1;
    } else if (must_escape(code)) {
      append_escape(code, out);
    } else {
      if (length == 1 && special.find(text[0]) != special.npos) {
        out->push_back('\\');
      }
      out->append(text.data(), length);
    }
    text.remove_prefix(length);
  }
}

}  // namespace

void append_json_string(absl::string_view text, std::string* out) {
  out->push_back('"');
  append_escaped(text, "\"\\", "\\\\x", out);
  out->push_back('"');
}

void append_log_text(absl::string_view text, std::string* out) {
  append_escaped(text, "\\", "\\x", out);
}

void append_log_value(absl::string_view text, std::string* out) {
  const bool quote =
      text.empty() || text.find_first_of(" \"=") != absl::string_view::npos;
  if (quote) out->push_back('"');
  append_escaped(text, "\"\\", "\\x", out);
  if (quote) out->push_back('"');
}

}  // namespace ferry
