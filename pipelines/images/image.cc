#include "pipelines/images/image.h"

#include "absl/strings/str_cat.h"

namespace ferry {

absl::Status check_image(const RgbImage& image) {
  if (image.width < 1 || image.height < 1 || image.width > kMaxImageEdge ||
      image.height > kMaxImageEdge) {
    return absl::InvalidArgumentError(
        absl::StrCat("an image of ", image.width, "x", image.height,
                     " pixels; edges are 1 to ", kMaxImageEdge));
  }
  const uint64_t bytes = uint64_t{3} * static_cast<uint64_t>(image.width) *
                         static_cast<uint64_t>(image.height);
  if (image.pixels.size() != bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an image of ", image.width, "x", image.height, " pixels has ",
        image.pixels.size(), " bytes, not ", bytes));
  }
  return absl::OkStatus();
}

}  // namespace ferry
