#include "pipelines/images/exif.h"

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "platform/base/check.h"
#include "platform/base/status_macros.h"
#include "platform/base/utf8.h"

namespace ferry {
namespace {

// TIFF's field types.
constexpr uint16_t kAscii = 2;
constexpr uint16_t kLong = 4;
constexpr uint16_t kUndefined = 7;

constexpr uint16_t kSoftware = 0x0131;
constexpr uint16_t kExifDirectory = 0x8769;
constexpr uint16_t kExifVersion = 0x9000;
constexpr uint16_t kUserComment = 0x9286;

// Says how the comment is coded. The literal's own NUL is its last byte.
constexpr absl::string_view kUnicode("UNICODE", 8);

constexpr uint32_t kHeaderBytes = 8;
// Both directories have two entries of 12 bytes, a count and a link.
constexpr uint32_t kDirectoryBytes = 2 + 2 * 12 + 4;

void append_uint16(uint32_t value, std::string* out) {
  out->push_back(static_cast<char>(value >> 8));
  out->push_back(static_cast<char>(value));
}

void append_uint32(uint32_t value, std::string* out) {
  append_uint16(value >> 16, out);
  append_uint16(value & 0xFFFF, out);
}

// `value` is the value itself when it fits in 4 bytes, else its offset.
void append_entry(uint16_t tag, uint16_t type, size_t count, uint32_t value,
                  std::string* out) {
  append_uint16(tag, out);
  append_uint16(type, out);
  append_uint32(static_cast<uint32_t>(count), out);
  append_uint32(value, out);
}

// REQUIRES: `character` is one valid UTF-8 character.
uint32_t code_point(absl::string_view character) {
  FERRY_CHECK_EQ(utf8_valid_length(character), character.size());
  const uint32_t lead = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return lead;
  uint32_t value = lead & (0x7Fu >> character.size());
  for (const char c : character.substr(1)) {
    value = value << 6 | (static_cast<uint8_t>(c) & 0x3Fu);
  }
  return value;
}

absl::StatusOr<std::string> to_utf16(absl::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t length = utf8_valid_length(text);
    if (length == 0) {
      return absl::InvalidArgumentError("an Exif text must be UTF-8");
    }
    const uint32_t value = code_point(text.substr(0, length));
    if (value < 0x10000) {
      append_uint16(value, &result);
    } else {
      append_uint16(0xD800 + ((value - 0x10000) >> 10), &result);
      append_uint16(0xDC00 + (value & 0x3FF), &result);
    }
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace

absl::StatusOr<std::string> make_exif(absl::string_view text,
                                      absl::string_view software) {
  ASSIGN_OR_RETURN(const std::string comment, to_utf16(text));
  // A string ends with NUL, and what follows lies at an even offset.
  std::string name = absl::StrCat(software, absl::string_view("\0", 1));
  const size_t name_bytes = name.size();
  if (name_bytes % 2 == 1) name.push_back('\0');
  const uint32_t name_at = kHeaderBytes + kDirectoryBytes;
  const uint32_t exif_at = name_at + static_cast<uint32_t>(name.size());
  const uint32_t comment_at = exif_at + kDirectoryBytes;

  // Big-endian; 42; where the first directory lies.
  std::string block("MM\0\x2a", 4);
  append_uint32(kHeaderBytes, &block);

  append_uint16(2, &block);
  append_entry(kSoftware, kAscii, name_bytes, name_at, &block);
  append_entry(kExifDirectory, kLong, 1, exif_at, &block);
  append_uint32(0, &block);
  block += name;

  append_uint16(2, &block);
  append_entry(kExifVersion, kUndefined, 4, /*"0232"*/ 0x30323332, &block);
  append_entry(kUserComment, kUndefined, kUnicode.size() + comment.size(),
               comment_at, &block);
  append_uint32(0, &block);
  absl::StrAppend(&block, kUnicode, comment);
  return block;
}

}  // namespace ferry
