#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace ferry {

// A tensor like `tensor`, with its type, sizes, strides and lazy bits, on
// another storage, and so on that storage's device.
at::Tensor make_view(const at::Tensor& tensor, const c10::Storage& storage,
                     int64_t storage_offset);

// Gives each tensor the data of the view at its place, as set_data() does: all
// of them, or, when LibTorch throws, none. REQUIRES: as many of both.
void set_data_of_all(absl::Span<const at::Tensor> tensors,
                     absl::Span<const at::Tensor> views);

}  // namespace ferry
