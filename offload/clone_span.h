#pragma once

#include <ATen/core/Tensor.h>

namespace ferry {

// A copy of a tensor on its device, by the current stream, in memory of its
// own and with the same sizes and strides: whoever computes with it computes
// the same bytes. Throws what LibTorch throws.
at::Tensor clone_span(const at::Tensor& tensor);

}  // namespace ferry
