#include "pipelines/images/jpeg_encoder.h"

#include <turbojpeg.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

constexpr int kFullColourQuality = 90;

struct DestroyHandle {
  void operator()(void* handle) const { tjDestroy(handle); }
};
struct FreeBuffer {
  void operator()(unsigned char* buffer) const { tjFree(buffer); }
};

}  // namespace

absl::StatusOr<std::string> encode_jpeg(const RgbImage& image, int quality) {
  RETURN_IF_ERROR(check_image(image));
  if (quality < 1 || quality > 100) {
    return absl::InvalidArgumentError(
        absl::StrCat("quality is ", quality, "; it must be 1 to 100"));
  }
  const std::unique_ptr<void, DestroyHandle> encoder(tjInitCompress());
  if (encoder == nullptr) {
    return absl::InternalError("TurboJPEG cannot be initialised");
  }
  unsigned char* data = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): TurboJPEG's type.
  const int result = tjCompress2(
      encoder.get(),
      reinterpret_cast<const unsigned char*>(image.pixels.data()), image.width,
      /*pitch=*/0, image.height, TJPF_RGB, &data, &size,
      quality >= kFullColourQuality ? TJSAMP_444 : TJSAMP_420, quality,
      TJFLAG_ACCURATEDCT);
  const std::unique_ptr<unsigned char, FreeBuffer> owned(data);
  if (result != 0) {
    return absl::InternalError(
        absl::StrCat("TurboJPEG: ", tjGetErrorStr2(encoder.get())));
  }
  return std::string(reinterpret_cast<const char*>(data), size);
}

}  // namespace ferry
