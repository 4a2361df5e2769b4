#include "pipelines/images/latent_preview.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ATen/TensorOperators.h"
#include "ATen/ops/adaptive_avg_pool2d.h"
#include "ATen/ops/where.h"
#include "ATen/ops/zeros_like.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pipelines/images/tensor_to_image.h"

namespace ferry {
namespace {

// Stretches each channel to 0..1; a channel that is the same everywhere is 0.
at::Tensor stretch(const at::Tensor& channels) {
  const at::Tensor min = channels.amin({1, 2}, /*keepdim=*/true);
  const at::Tensor range = channels.amax({1, 2}, /*keepdim=*/true) - min;
  const at::Tensor stretched = (channels - min) / range;
  return at::where(range > 0, stretched, at::zeros_like(stretched));
}

// Brings the longest edge as close to `max_edge` as whole pixels allow.
at::Tensor fit(const at::Tensor& channels, int max_edge) {
  const int64_t height = channels.size(1);
  const int64_t width = channels.size(2);
  const int64_t edge = std::max(height, width);
  if (edge <= max_edge) {
    const int64_t factor = max_edge / edge;
    return channels.repeat_interleave(factor, 1).repeat_interleave(factor, 2);
  }
  const auto reduce = [&](int64_t length) {
    const double scaled =
        static_cast<double>(length) * max_edge / static_cast<double>(edge);
    return std::max<int64_t>(1, std::llround(scaled));
  };
  return at::adaptive_avg_pool2d(channels, {reduce(height), reduce(width)});
}

}  // namespace

absl::StatusOr<RgbImage> latent_preview(const at::Tensor& latents,
                                        int max_edge) {
  if ((latents.dim() != 3 && latents.dim() != 4) || latents.numel() == 0 ||
      !latents.is_floating_point()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "latents must be a floating-point tensor [channels, height, width] or "
        "[channels, frames, height, width]; they have ",
        latents.dim(), " dimensions and ", latents.numel(), " values"));
  }
  if (max_edge < 1 || max_edge > kMaxImageEdge) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_edge is ", max_edge, "; it must be 1 to ", kMaxImageEdge));
  }
  at::Tensor channels = latents.dim() == 4 ? latents.select(1, 0) : latents;
  channels = channels.slice(0, 0, latents.size(0) >= 3 ? 3 : 1);
  // In double, where differences of floats do not overflow.
  channels = channels.to(at::kCPU, at::kDouble);
  channels = at::where(channels.isfinite(), channels, at::zeros_like(channels));
  return tensor_to_image(fit(stretch(channels), max_edge));
}

}  // namespace ferry
