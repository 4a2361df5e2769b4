#pragma once

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "pipelines/images/image.h"

namespace ferry {

// Converts a decoded image: floating point, [3, height, width] or
// [1, height, width] (grey), any device. Values are clamped to 0..1 and
// rounded as diffusers does: round-half-even of 255 x, in float32.
//
// INVALID_ARGUMENT for another shape or dtype. FAILED_PRECONDITION when a
// value is NaN or infinite.
absl::StatusOr<RgbImage> tensor_to_image(const at::Tensor& tensor);

}  // namespace ferry
