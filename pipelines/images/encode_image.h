#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ferry/v1/generation_spec.pb.h"
#include "pipelines/images/image.h"
#include "pipelines/images/png_encoder.h"

namespace ferry {

// A file, or what takes its place.
struct EncodedImage {
  std::string data;
  // Such as "image/png".
  std::string mime_type;
};

// Encodes in the format that a request asked for: PNG (also when unspecified),
// JPEG, or raw RGB (mime type "application/octet-stream"). `quality` is that
// of JPEG, `texts` go into a PNG; the other formats have no place for them.
// UNIMPLEMENTED for other formats.
absl::StatusOr<EncodedImage> encode_image(v1::OutputSpec::Format format,
                                          const RgbImage& image, int quality,
                                          const std::vector<PngText>& texts);

}  // namespace ferry
