#include "pipelines/safetensors/dtype.h"

#include "absl/strings/str_join.h"

namespace ferry {
namespace {

struct Entry {
  SafetensorsDtype dtype;
  const char* name;
  int64_t bytes;
};

// In the order of the enumeration.
constexpr Entry kEntries[] = {
    {SafetensorsDtype::kBool, "BOOL", 1},
    {SafetensorsDtype::kU8, "U8", 1},
    {SafetensorsDtype::kI8, "I8", 1},
    {SafetensorsDtype::kF8E4M3, "F8_E4M3", 1},
    {SafetensorsDtype::kF8E5M2, "F8_E5M2", 1},
    {SafetensorsDtype::kU16, "U16", 2},
    {SafetensorsDtype::kI16, "I16", 2},
    {SafetensorsDtype::kF16, "F16", 2},
    {SafetensorsDtype::kBF16, "BF16", 2},
    {SafetensorsDtype::kU32, "U32", 4},
    {SafetensorsDtype::kI32, "I32", 4},
    {SafetensorsDtype::kF32, "F32", 4},
    {SafetensorsDtype::kU64, "U64", 8},
    {SafetensorsDtype::kI64, "I64", 8},
    {SafetensorsDtype::kF64, "F64", 8},
    {SafetensorsDtype::kC64, "C64", 8},
};

const Entry& entry_of(SafetensorsDtype dtype) {
  return kEntries[static_cast<int>(dtype)];
}

}  // namespace

std::optional<SafetensorsDtype> parse_safetensors_dtype(
    absl::string_view name) {
  for (const Entry& entry : kEntries) {
    if (name == entry.name) return entry.dtype;
  }
  return std::nullopt;
}

absl::string_view to_string(SafetensorsDtype dtype) {
  return entry_of(dtype).name;
}

int64_t element_bytes(SafetensorsDtype dtype) { return entry_of(dtype).bytes; }

std::string safetensors_dtype_names() {
  return absl::StrJoin(kEntries, ", ", [](std::string* out, const Entry& e) {
    out->append(e.name);
  });
}

}  // namespace ferry
