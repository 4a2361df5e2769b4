#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ferry/v1/generation_spec.pb.h"
#include "pipelines/images/image.h"

namespace ferry {

// A file, or what takes its place.
struct EncodedImage {
  std::string data;
  // Such as "image/png".
  std::string mime_type;
};

// Encodes as a request asked: PNG (also when unspecified), JPEG, WebP or raw
// RGB (mime type "application/octet-stream").
//
// `text`, which may be empty, is written where other tools look for how a
// picture was generated: into the text chunk `parameters` of a PNG, into the
// Exif UserComment of a JPEG or a WebP. Raw RGB has no place for it.
//
// INVALID_ARGUMENT for what a format cannot hold, UNIMPLEMENTED for other
// formats. Thread-safe.
absl::StatusOr<EncodedImage> encode_image(const v1::OutputSpec& output,
                                          const RgbImage& image,
                                          const std::string& text);

}  // namespace ferry
