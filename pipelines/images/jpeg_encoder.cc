#include "pipelines/images/jpeg_encoder.h"

#include <turbojpeg.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

constexpr int kFullColourQuality = 90;
// What a segment holds beside its length.
constexpr size_t kMaxSegmentBytes = 65533;
// Two bytes of marker, the length and the JFIF header, which stands first.
constexpr size_t kStartBytes = 2 + 18;

struct DestroyHandle {
  void operator()(void* handle) const { tjDestroy(handle); }
};
struct FreeBuffer {
  void operator()(unsigned char* buffer) const { tjFree(buffer); }
};

absl::StatusOr<std::string> make_exif_segment(absl::string_view exif) {
  const std::string body = absl::StrCat(absl::string_view("Exif\0\0", 6), exif);
  if (body.size() > kMaxSegmentBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an Exif block of ", exif.size(), " bytes; a JPEG holds 65527"));
  }
  const size_t length = body.size() + 2;
  std::string segment = "\xff\xe1";
  segment.push_back(static_cast<char>(length >> 8));
  segment.push_back(static_cast<char>(length));
  return segment + body;
}

}  // namespace

absl::StatusOr<std::string> encode_jpeg(const RgbImage& image, int quality,
                                        absl::string_view exif) {
  RETURN_IF_ERROR(check_image(image));
  if (quality < 1 || quality > 100) {
    return absl::InvalidArgumentError(
        absl::StrCat("quality is ", quality, "; it must be 1 to 100"));
  }
  std::string segment;
  if (!exif.empty()) {
    ASSIGN_OR_RETURN(segment, make_exif_segment(exif));
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
  const absl::string_view jpeg(reinterpret_cast<const char*>(data), size);
  return absl::StrCat(jpeg.substr(0, kStartBytes), segment,
                      jpeg.substr(kStartBytes));
}

}  // namespace ferry
