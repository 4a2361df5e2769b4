#pragma once

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "pipelines/images/image.h"

namespace ferry {

// Makes a rough picture of latents without decoding them, so that a preview
// costs nothing beside a step.
//
// It is a fixed projection, not what the VAE would show: the first three
// channels become red, green and blue (fewer: grey from the first), each
// stretched so that the image's own minimum is 0 and its maximum is 255. Shape
// and layout can be recognised, colours mean nothing. Values that are not
// finite are shown as 0.
//
// `latents` is floating point, [channels, height, width] or
// [channels, frames, height, width] (its first frame is shown), any device.
// Each latent pixel becomes a square of as many pixels as fit in `max_edge`; an
// image with a longer edge is reduced by averaging areas. INVALID_ARGUMENT for
// other shapes, or max_edge < 1.
absl::StatusOr<RgbImage> latent_preview(const at::Tensor& latents,
                                        int max_edge);

}  // namespace ferry
