#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace ferry {

// Fields as they stand on the wire, also such as no Protobuf library writes.

// A varint without a tag.
std::string wire_number(uint64_t value);

// A field with its tag, by wire type.
std::string wire_varint(int field, uint64_t value);
std::string wire_fixed64(int field, uint64_t value);
std::string wire_fixed32(int field, uint32_t value);
std::string wire_bytes(int field, absl::string_view bytes);
// A group with nothing in it; proto3 has none.
std::string wire_group(int field);

// A double's bits.
uint64_t bits_of(double value);

}  // namespace ferry
