#include "pipelines/images/webp_encoder.h"

#include <webp/encode.h>
#include <webp/mux.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// 0 to 9; beyond this one, files get little smaller and times much longer.
constexpr int kLosslessEffort = 4;

struct FreePicture {
  void operator()(WebPPicture* picture) const { WebPPictureFree(picture); }
};
struct DeleteMux {
  void operator()(WebPMux* mux) const { WebPMuxDelete(mux); }
};

int append_data(const uint8_t* data, size_t size, const WebPPicture* picture) {
  static_cast<std::string*>(picture->custom_ptr)
      ->append(reinterpret_cast<const char*>(data), size);
  return 1;
}

absl::Status check_options(const RgbImage& image, const WebpOptions& options) {
  RETURN_IF_ERROR(check_image(image));
  if (image.width > WEBP_MAX_DIMENSION || image.height > WEBP_MAX_DIMENSION) {
    return absl::InvalidArgumentError(
        absl::StrCat("an image of ", image.width, "x", image.height,
                     " pixels; a WebP's edges are 1 to ", WEBP_MAX_DIMENSION));
  }
  if (!options.lossless && (options.quality < 1 || options.quality > 100)) {
    return absl::InvalidArgumentError(
        absl::StrCat("quality is ", options.quality, "; it must be 1 to 100"));
  }
  return absl::OkStatus();
}

absl::StatusOr<WebPConfig> make_config(const WebpOptions& options) {
  WebPConfig config;
  const bool made =
      options.lossless
          ? WebPConfigInit(&config) != 0 &&
                WebPConfigLosslessPreset(&config, kLosslessEffort) != 0
          : WebPConfigPreset(&config, WEBP_PRESET_DEFAULT,
                             static_cast<float>(options.quality)) != 0;
  if (!made) return absl::InternalError("libwebp cannot be initialised");
  return config;
}

absl::StatusOr<std::string> encode_pixels(const RgbImage& image,
                                          const WebPConfig& config) {
  WebPPicture picture;
  if (WebPPictureInit(&picture) == 0) {
    return absl::InternalError("libwebp cannot be initialised");
  }
  const std::unique_ptr<WebPPicture, FreePicture> owned(&picture);
  std::string data;
  picture.width = image.width;
  picture.height = image.height;
  // Without it the import makes the lossy format's colours at once.
  picture.use_argb = config.lossless;
  picture.writer = append_data;
  picture.custom_ptr = &data;
  const auto* pixels = reinterpret_cast<const uint8_t*>(image.pixels.data());
  if (WebPPictureImportRGB(&picture, pixels, 3 * image.width) == 0 ||
      WebPEncode(&config, &picture) == 0) {
    return absl::InternalError(
        absl::StrCat("libwebp: error ", picture.error_code));
  }
  return data;
}

absl::StatusOr<std::string> add_exif(const std::string& picture,
                                     absl::string_view exif) {
  const auto to_data = [](absl::string_view bytes) {
    return WebPData{reinterpret_cast<const uint8_t*>(bytes.data()),
                    bytes.size()};
  };
  const WebPData picture_data = to_data(picture);
  const WebPData exif_data = to_data(exif);
  WebPData file;
  WebPDataInit(&file);
  const std::unique_ptr<WebPMux, DeleteMux> mux(WebPMuxNew());
  if (mux == nullptr ||
      WebPMuxSetImage(mux.get(), &picture_data, /*copy_data=*/0) !=
          WEBP_MUX_OK ||
      WebPMuxSetChunk(mux.get(), "EXIF", &exif_data, /*copy_data=*/0) !=
          WEBP_MUX_OK ||
      WebPMuxAssemble(mux.get(), &file) != WEBP_MUX_OK) {
    return absl::InternalError("libwebpmux cannot add the Exif block");
  }
  std::string result(reinterpret_cast<const char*>(file.bytes), file.size);
  WebPDataClear(&file);
  return result;
}

}  // namespace

absl::StatusOr<std::string> encode_webp(const RgbImage& image,
                                        const WebpOptions& options) {
  RETURN_IF_ERROR(check_options(image, options));
  ASSIGN_OR_RETURN(const WebPConfig config, make_config(options));
  ASSIGN_OR_RETURN(std::string data, encode_pixels(image, config));
  if (options.exif.empty()) return data;
  return add_exif(data, options.exif);
}

}  // namespace ferry
