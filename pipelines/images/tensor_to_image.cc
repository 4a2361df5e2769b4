#include "pipelines/images/tensor_to_image.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "c10/core/ScalarType.h"

namespace ferry {

absl::StatusOr<RgbImage> tensor_to_image(const at::Tensor& tensor) {
  const bool has_channels =
      tensor.dim() == 3 && (tensor.size(0) == 1 || tensor.size(0) == 3);
  if (!has_channels || !tensor.is_floating_point()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an image must be a floating-point tensor [3, height, width] or "
        "[1, height, width]; it has ",
        tensor.dim(), " dimensions and the type ",
        c10::toString(tensor.scalar_type())));
  }
  RgbImage image;
  if (tensor.numel() == 0 || tensor.size(1) > kMaxImageEdge ||
      tensor.size(2) > kMaxImageEdge) {
    return absl::InvalidArgumentError(
        absl::StrCat("an image of ", tensor.size(2), "x", tensor.size(1),
                     " pixels; edges are 1 to ", kMaxImageEdge));
  }
  image.height = static_cast<int>(tensor.size(1));
  image.width = static_cast<int>(tensor.size(2));
  const at::Tensor values = tensor.to(at::kCPU, at::kFloat);
  if (!values.isfinite().all().item<bool>()) {
    return absl::FailedPreconditionError(
        "the image has values that are NaN or infinite");
  }
  const at::Tensor bytes = values.clamp(0, 1)
                               .mul(255)
                               .round()
                               .to(at::kByte)
                               .expand({3, image.height, image.width})
                               .permute({1, 2, 0})
                               .contiguous();
  image.pixels.assign(
      reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
      static_cast<size_t>(bytes.numel()));
  return image;
}

}  // namespace ferry
