#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "pipelines/images/image.h"

namespace ferry {

// Encodes a baseline JPEG. `quality` is 1 to 100; from 90 on colour is kept at
// full resolution, below at half. Errors are INVALID_ARGUMENT; thread-safe.
absl::StatusOr<std::string> encode_jpeg(const RgbImage& image, int quality);

}  // namespace ferry
