#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace ferry {

// Element types of safetensors files that can be loaded.
enum class SafetensorsDtype {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kU16,
  kI16,
  kF16,
  kBF16,
  kU32,
  kI32,
  kF32,
  kU64,
  kI64,
  kF64,
  kC64,
};

// As files write them: "BF16". Nothing for one that is not known.
std::optional<SafetensorsDtype> parse_safetensors_dtype(absl::string_view name);
absl::string_view to_string(SafetensorsDtype dtype);
// Bytes of an element.
int64_t element_bytes(SafetensorsDtype dtype);
// All names, for errors: "BOOL, U8, …".
std::string safetensors_dtype_names();

}  // namespace ferry
