#include "pipelines/images/png_encoder.h"

#include <png.h>

#include <csetjmp>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "platform/base/status_macros.h"
#include "platform/base/utf8.h"

namespace ferry {
namespace {

// Level 3 takes half the time of zlib's default, for files that are a few
// percent larger.
constexpr int kCompressionLevel = 3;
constexpr size_t kMaxTextBytes = 1 << 20;

// What libpng's callbacks write to.
struct Sink {
  std::string data;
  std::string error;
};

void append_data(png_structp png, png_bytep data, png_size_t size) {
  static_cast<Sink*>(png_get_io_ptr(png))
      ->data.append(reinterpret_cast<const char*>(data), size);
}

void flush_nothing(png_structp) {}

[[noreturn]] void fail(png_structp png, png_const_charp message) {
  static_cast<Sink*>(png_get_error_ptr(png))->error = message;
  png_longjmp(png, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

// libpng's error handler jumps to the setjmp: between the two there must be no
// object with a destructor, so this function has none, and all that it works
// on is the caller's. Returns false after an error.
bool write_png(png_structp png, png_infop info, const RgbImage& image,
               std::vector<png_text>& texts) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_compression_level(png, kCompressionLevel);
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width),
               static_cast<png_uint_32>(image.height), 8, PNG_COLOR_TYPE_RGB,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (!texts.empty()) {
    png_set_text(png, info, texts.data(), static_cast<int>(texts.size()));
  }
  png_write_info(png, info);
  const size_t stride = size_t{3} * static_cast<size_t>(image.width);
  const png_byte* row = reinterpret_cast<const png_byte*>(image.pixels.data());
  for (int y = 0; y < image.height; ++y, row += stride) {
    png_write_row(png, row);
  }
  png_write_end(png, info);
  return true;
}

absl::Status check_text(const PngText& text) {
  const std::string& key = text.key;
  bool valid_key = !key.empty() && key.size() <= 79 && key.front() != ' ' &&
                   key.back() != ' ';
  for (char c : key) {
    valid_key = valid_key && absl::ascii_isprint(static_cast<uint8_t>(c));
  }
  if (!valid_key) {
    return absl::InvalidArgumentError(
        "a PNG text's key must be 1 to 79 printable ASCII characters, without "
        "spaces at its ends");
  }
  if (text.value.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the PNG text ", key, " is longer than 1 MiB"));
  }
  absl::string_view rest = text.value;
  while (!rest.empty()) {
    const size_t length = rest.front() == '\0' ? 0 : utf8_valid_length(rest);
    if (length == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the PNG text ", key, " is not UTF-8, or has a NUL character"));
    }
    rest.remove_prefix(length);
  }
  return absl::OkStatus();
}

bool is_ascii(absl::string_view text) {
  for (char c : text) {
    if (static_cast<uint8_t>(c) >= 0x80) return false;
  }
  return true;
}

// libpng copies what the pointers point at; it does not write there.
png_text to_png_text(const PngText& text) {
  static char no_language[] = "";
  const bool ascii = is_ascii(text.value);
  png_text result = {};
  result.compression =
      ascii ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE;
  result.key = const_cast<char*>(text.key.c_str());
  result.text = const_cast<char*>(text.value.c_str());
  (ascii ? result.text_length : result.itxt_length) = text.value.size();
  result.lang = no_language;
  result.lang_key = no_language;
  return result;
}

}  // namespace

absl::StatusOr<std::string> encode_png(const RgbImage& image,
                                       const std::vector<PngText>& texts) {
  RETURN_IF_ERROR(check_image(image));
  std::vector<png_text> png_texts;
  for (const PngText& text : texts) {
    RETURN_IF_ERROR(check_text(text));
    png_texts.push_back(to_png_text(text));
  }
  Sink sink;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &sink, fail,
                                            ignore_warning);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  if (info == nullptr) {
    png_destroy_write_struct(&png, nullptr);
    return absl::InternalError("libpng cannot be initialised");
  }
  png_set_write_fn(png, &sink, append_data, flush_nothing);
  const bool written = write_png(png, info, image, png_texts);
  png_destroy_write_struct(&png, &info);
  if (!written) {
    return absl::InternalError(absl::StrCat("libpng: ", sink.error));
  }
  return std::move(sink.data);
}

}  // namespace ferry
