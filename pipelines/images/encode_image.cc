#include "pipelines/images/encode_image.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pipelines/images/jpeg_encoder.h"
#include "platform/base/status_macros.h"

namespace ferry {

absl::StatusOr<EncodedImage> encode_image(v1::OutputSpec::Format format,
                                          const RgbImage& image, int quality,
                                          const std::vector<PngText>& texts) {
  EncodedImage encoded;
  switch (format) {
    case v1::OutputSpec::FORMAT_UNSPECIFIED:
    case v1::OutputSpec::FORMAT_PNG: {
      ASSIGN_OR_RETURN(encoded.data, encode_png(image, texts));
      encoded.mime_type = "image/png";
      return encoded;
    }
    case v1::OutputSpec::FORMAT_JPEG: {
      ASSIGN_OR_RETURN(encoded.data, encode_jpeg(image, quality));
      encoded.mime_type = "image/jpeg";
      return encoded;
    }
    case v1::OutputSpec::FORMAT_RAW_RGB8: {
      RETURN_IF_ERROR(check_image(image));
      encoded.data = image.pixels;
      encoded.mime_type = "application/octet-stream";
      return encoded;
    }
    default:
      return absl::UnimplementedError(absl::StrCat(
          "images are not encoded as ", v1::OutputSpec::Format_Name(format)));
  }
}

}  // namespace ferry
