#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pipelines/images/image.h"

namespace ferry {

struct WebpOptions {
  // Keeps every pixel; `quality` means nothing then.
  bool lossless = false;
  // 1 to 100.
  int quality = 95;
  // An Exif block (exif.h); empty: none.
  absl::string_view exif;
};

// Encodes a WebP. Equal inputs give equal bytes. INVALID_ARGUMENT for edges
// over 16383 pixels, the format's own limit, and for other wrong arguments;
// thread-safe.
absl::StatusOr<std::string> encode_webp(const RgbImage& image,
                                        const WebpOptions& options);

}  // namespace ferry
