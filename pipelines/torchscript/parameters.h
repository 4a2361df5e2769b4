#pragma once

#include <c10/core/ScalarType.h>
#include <torch/csrc/jit/api/module.h>

#include <optional>

#include "absl/status/status.h"

namespace ferry {

// Checks that every parameter and buffer is a dense tensor, and that no tensor
// at all, be it an attribute or a constant of a method, is on `meta`, where it
// has no values. INVALID_ARGUMENT names all that are quantized, sparse, nested,
// of another layout or on `meta`.
absl::Status check_parameters(const torch::jit::Module& root);

// Converts every floating parameter to `dtype` and leaves buffers alone.
// Parameters that share a storage share one afterwards, with the same offsets
// and strides. Parameters need no gradients from then on.
// RootModule::load() calls it after check_parameters(), before it hands the
// module to anybody, so that no other thread uses it. Throws what LibTorch
// throws, also of a parameter that check_parameters() refuses.
void convert_parameters(const torch::jit::Module& root,
                        std::optional<c10::ScalarType> dtype);

// The type of the module's first floating parameter, or float32.
c10::ScalarType floating_dtype(const torch::jit::Module& module);

}  // namespace ferry
