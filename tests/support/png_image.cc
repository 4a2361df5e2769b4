#include "tests/support/png_image.h"

#include <openssl/sha.h>
#include <png.h>

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"

namespace ferry {
namespace {

struct Source {
  absl::string_view rest;
};

void read_bytes(png_structp png, png_bytep target, size_t size) {
  Source* source = static_cast<Source*>(png_get_io_ptr(png));
  if (source->rest.size() < size) png_error(png, "ends too early");
  memcpy(target, source->rest.data(), size);
  source->rest.remove_prefix(size);
}

// Thrown through libpng, which unwinds well: it has no state of its own here.
[[noreturn]] void throw_error(png_structp, png_const_charp message) {
  throw absl::InvalidArgumentError(message);
}

void ignore_warning(png_structp, png_const_charp) {}

PngImage read_image(png_structp png, png_infop info) {
  png_read_info(png, info);
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_gray_to_rgb(png);
  png_read_update_info(png, info);
  PngImage image;
  image.width = static_cast<int>(png_get_image_width(png, info));
  image.height = static_cast<int>(png_get_image_height(png, info));
  const size_t row_bytes = png_get_rowbytes(png, info);
  image.pixels.resize(row_bytes * image.height);
  for (int row = 0; row < image.height; ++row) {
    png_read_row(png, image.pixels.data() + row * row_bytes, nullptr);
  }
  png_read_end(png, info);
  png_textp text = nullptr;
  const int count = png_get_text(png, info, &text, nullptr);
  for (int i = 0; i < count; ++i) image.text[text[i].key] = text[i].text;
  return image;
}

}  // namespace

absl::StatusOr<PngImage> decode_png(absl::string_view data) {
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr,
                                           throw_error, ignore_warning);
  png_infop info = png_create_info_struct(png);
  Source source = {data};
  png_set_read_fn(png, &source, read_bytes);
  absl::StatusOr<PngImage> result;
  try {
    result = read_image(png, info);
  } catch (const absl::Status& error) {
    result = error;
  }
  png_destroy_read_struct(&png, &info, nullptr);
  return result;
}

std::string sha256_hex(absl::string_view data) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(data.data()), data.size(),
         digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<char*>(digest), sizeof(digest)));
}

}  // namespace ferry
