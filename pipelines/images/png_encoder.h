#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipelines/images/image.h"

namespace ferry {

// One text chunk of a PNG.
struct PngText {
  // 1 to 79 printable ASCII characters, no space at either end.
  std::string key;
  // UTF-8 without NUL. Written as tEXt when it is ASCII, else as iTXt.
  std::string value;
};

// Encodes a PNG (truecolour, 8 bits), its texts before the pixels. Equal
// inputs give equal bytes. Errors are INVALID_ARGUMENT; thread-safe.
absl::StatusOr<std::string> encode_png(const RgbImage& image,
                                       const std::vector<PngText>& texts);

}  // namespace ferry
