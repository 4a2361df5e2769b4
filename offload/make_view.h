#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ferry {

// A tensor like `tensor`, with its type, sizes, strides and lazy bits, on
// another storage, and so on that storage's device.
at::Tensor make_view(const at::Tensor& tensor, const c10::Storage& storage,
                     int64_t storage_offset);

}  // namespace ferry
