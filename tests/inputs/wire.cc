#include "tests/inputs/wire.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

std::string tag(int field, int wire_type) {
  return wire_number(static_cast<uint64_t>(field) << 3 |
                     static_cast<uint64_t>(wire_type));
}

std::string little_endian(uint64_t value, int bytes) {
  std::string result;
  for (int i = 0; i < bytes; ++i) {
    result.push_back(static_cast<char>(value >> (8 * i)));
  }
  return result;
}

}  // namespace

std::string wire_number(uint64_t value) {
  std::string result;
  for (; value >= 0x80; value >>= 7) {
    result.push_back(static_cast<char>(value | 0x80));
  }
  result.push_back(static_cast<char>(value));
  return result;
}

std::string wire_varint(int field, uint64_t value) {
  return tag(field, 0) + wire_number(value);
}

std::string wire_fixed64(int field, uint64_t value) {
  return tag(field, 1) + little_endian(value, 8);
}

std::string wire_bytes(int field, absl::string_view bytes) {
  return absl::StrCat(tag(field, 2), wire_number(bytes.size()), bytes);
}

std::string wire_group(int field) { return tag(field, 3) + tag(field, 4); }

std::string wire_fixed32(int field, uint32_t value) {
  return tag(field, 5) + little_endian(value, 4);
}

uint64_t bits_of(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

}  // namespace ferry
