#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pipelines/images/image.h"

namespace ferry {

// Encodes a baseline JPEG. `quality` is 1 to 100; from 90 on colour is kept at
// full resolution, below at half. `exif` is an Exif block (exif.h) of at most
// 65527 bytes; empty: none. Equal inputs give equal bytes. Errors are
// INVALID_ARGUMENT; thread-safe.
absl::StatusOr<std::string> encode_jpeg(const RgbImage& image, int quality,
                                        absl::string_view exif = {});

}  // namespace ferry
