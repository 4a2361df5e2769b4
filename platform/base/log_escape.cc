#include "platform/base/log_escape.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_format.h"

namespace ferry {
namespace {

// Returns the code point at the start of `text` and its length in bytes;
// length 0 when the bytes there are no UTF-8.
uint32_t decode_utf8(absl::string_view text, size_t* length) {
  const auto byte = [&text](size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const unsigned char first = byte(0);
  *length = first < 0x80             ? 1
            : (first & 0xe0) == 0xc0 ? 2
            : (first & 0xf0) == 0xe0 ? 3
            : (first & 0xf8) == 0xf0 ? 4
                                     : 0;
  if (*length == 1) return first;
  if (*length == 0 || *length > text.size()) {
    *length = 0;
    return 0;
  }
  uint32_t code = first & (0x7f >> *length);
  for (size_t i = 1; i < *length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      *length = 0;
      return 0;
    }
    code = (code << 6) | (byte(i) & 0x3f);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kSmallest[*length] || surrogate || code > 0x10ffff) *length = 0;
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
    size_t length = 0;
    const uint32_t code = decode_utf8(text, &length);
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
