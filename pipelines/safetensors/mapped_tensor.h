#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

#include "pipelines/safetensors/dtype.h"
#include "pipelines/safetensors/weight_files.h"

namespace ferry {

c10::ScalarType to_scalar_type(SafetensorsDtype dtype);
// As safetensors files write it; LibTorch's name for types that they lack.
std::string safetensors_name(c10::ScalarType type);

// A tensor that sees the file's bytes where they are mapped, through a storage
// of its own (offload/mapped_storage.h): it must not be written. Where they are
// not aligned to `alignment` bytes, and to their type, it is a copy in memory.
// Throws without memory.
at::Tensor make_mapped_tensor(const StoredTensor& stored, int64_t alignment);

}  // namespace ferry
