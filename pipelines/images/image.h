#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace ferry {

// An image in memory: 8-bit RGB, interleaved rows from the top, no padding.
struct RgbImage {
  // Pixels.
  int width = 0;
  // Pixels.
  int height = 0;
  // [height, width, 3]; height * width * 3 bytes.
  std::string pixels;
};

// Longest edge of an image, in pixels: JPEG's own limit.
inline constexpr int kMaxImageEdge = 65500;

// INVALID_ARGUMENT unless both edges are 1 to kMaxImageEdge and `pixels` has
// the right size.
absl::Status check_image(const RgbImage& image);

}  // namespace ferry
