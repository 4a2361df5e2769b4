#include "pipelines/images/encode_image.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pipelines/images/exif.h"
#include "pipelines/images/jpeg_encoder.h"
#include "pipelines/images/png_encoder.h"
#include "pipelines/images/webp_encoder.h"
#include "platform/base/status_macros.h"
#include "platform/base/version.h"

namespace ferry {
namespace {

std::string software() { return absl::StrCat("Ferry ", kVersion); }

absl::StatusOr<std::string> encode_as_png(const RgbImage& image,
                                          const std::string& text) {
  std::vector<PngText> texts;
  if (!text.empty()) {
    texts = {{"parameters", text}, {"Software", software()}};
  }
  return encode_png(image, texts);
}

absl::StatusOr<std::string> exif_of(const std::string& text) {
  if (text.empty()) return "";
  return make_exif(text, software());
}

}  // namespace

absl::StatusOr<EncodedImage> encode_image(const v1::OutputSpec& output,
                                          const RgbImage& image,
                                          const std::string& text) {
  EncodedImage encoded;
  switch (output.format()) {
    case v1::OutputSpec::FORMAT_UNSPECIFIED:
    case v1::OutputSpec::FORMAT_PNG: {
      ASSIGN_OR_RETURN(encoded.data, encode_as_png(image, text));
      encoded.mime_type = "image/png";
      return encoded;
    }
    case v1::OutputSpec::FORMAT_JPEG: {
      ASSIGN_OR_RETURN(const std::string exif, exif_of(text));
      ASSIGN_OR_RETURN(encoded.data,
                       encode_jpeg(image, output.quality(), exif));
      encoded.mime_type = "image/jpeg";
      return encoded;
    }
    case v1::OutputSpec::FORMAT_WEBP: {
      ASSIGN_OR_RETURN(const std::string exif, exif_of(text));
      ASSIGN_OR_RETURN(
          encoded.data,
          encode_webp(image, {output.lossless(), output.quality(), exif}));
      encoded.mime_type = "image/webp";
      return encoded;
    }
    case v1::OutputSpec::FORMAT_RAW_RGB8: {
      RETURN_IF_ERROR(check_image(image));
      encoded.data = image.pixels;
      encoded.mime_type = "application/octet-stream";
      return encoded;
    }
    default:
      return absl::UnimplementedError(
          absl::StrCat("images are not encoded as ",
                       v1::OutputSpec::Format_Name(output.format())));
  }
}

}  // namespace ferry
