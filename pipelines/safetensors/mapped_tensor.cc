#include "pipelines/safetensors/mapped_tensor.h"

#include <ATen/ops/empty.h>

#include <cstdint>
#include <utility>

#include "offload/mapped_storage.h"

namespace ferry {
namespace {

constexpr std::pair<SafetensorsDtype, c10::ScalarType> kTypes[] = {
    {SafetensorsDtype::kBool, c10::kBool},
    {SafetensorsDtype::kU8, c10::kByte},
    {SafetensorsDtype::kI8, c10::kChar},
    {SafetensorsDtype::kF8E4M3, c10::kFloat8_e4m3fn},
    {SafetensorsDtype::kF8E5M2, c10::kFloat8_e5m2},
    {SafetensorsDtype::kU16, c10::kUInt16},
    {SafetensorsDtype::kI16, c10::kShort},
    {SafetensorsDtype::kF16, c10::kHalf},
    {SafetensorsDtype::kBF16, c10::kBFloat16},
    {SafetensorsDtype::kU32, c10::kUInt32},
    {SafetensorsDtype::kI32, c10::kInt},
    {SafetensorsDtype::kF32, c10::kFloat},
    {SafetensorsDtype::kU64, c10::kUInt64},
    {SafetensorsDtype::kI64, c10::kLong},
    {SafetensorsDtype::kF64, c10::kDouble},
    {SafetensorsDtype::kC64, c10::kComplexFloat},
};

}  // namespace

c10::ScalarType to_scalar_type(SafetensorsDtype dtype) {
  for (const auto& [stored, type] : kTypes) {
    if (stored == dtype) return type;
  }
  return c10::ScalarType::Undefined;
}

std::string safetensors_name(c10::ScalarType type) {
  for (const auto& [stored, known] : kTypes) {
    if (known == type) return std::string(to_string(stored));
  }
  return c10::toString(type);
}

at::Tensor make_mapped_tensor(const StoredTensor& stored, int64_t alignment) {
  const SafetensorsEntry& entry = stored.entry;
  const at::TensorOptions options(to_scalar_type(entry.dtype));
  auto storage = make_mapped_storage(stored.data(), entry.bytes, stored.file);
  const at::Tensor tensor = at::empty({0}, options);
  const auto address = reinterpret_cast<uintptr_t>(stored.data());
  if (address % static_cast<uintptr_t>(alignment) != 0 ||
      address % static_cast<uintptr_t>(element_bytes(entry.dtype)) != 0) {
    copy_to_memory(storage.get());
  }
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  impl.set_storage_keep_dtype(c10::Storage(std::move(storage)));
  impl.set_sizes_contiguous(entry.shape);
  return tensor;
}

}  // namespace ferry
