#include <png.h>
#include <turbojpeg.h>
#include <webp/decode.h>
#include <webp/mux.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipelines/images/encode_image.h"
#include "pipelines/images/jpeg_encoder.h"
#include "pipelines/images/png_encoder.h"
#include "pipelines/images/webp_encoder.h"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// A picture whose every pixel differs from its neighbours.
RgbImage make_image(int width, int height) {
  RgbImage image;
  image.width = width;
  image.height = height;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      image.pixels.push_back(static_cast<char>(x * 7 + y));
      image.pixels.push_back(static_cast<char>(y * 5 + 3));
      image.pixels.push_back(static_cast<char>(x ^ y));
    }
  }
  return image;
}

// A picture that JPEG keeps well.
RgbImage make_smooth_image(int width, int height) {
  RgbImage image = make_image(width, height);
  for (int i = 0; i < width * height; ++i) {
    image.pixels[3 * i] = static_cast<char>(100 + (i % width) / 4);
    image.pixels[3 * i + 1] = static_cast<char>(60 + (i / width) / 4);
    image.pixels[3 * i + 2] = static_cast<char>(30);
  }
  return image;
}

struct DecodedPng {
  RgbImage image;
  // In the file's order, with the chunk's kind before the key.
  std::vector<std::pair<std::string, std::string>> texts;
};

// Decodes with libpng's simple interface for pixels and its full one for
// texts. libpng aborts the test on damage: there is no setjmp.
DecodedPng decode_png(const std::string& data) {
  DecodedPng decoded;
  png_image header = {};
  header.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&header, data.data(), data.size()),
            0);
  EXPECT_EQ(header.format, static_cast<png_uint_32>(PNG_FORMAT_RGB));
  header.format = PNG_FORMAT_RGB;
  decoded.image.width = static_cast<int>(header.width);
  decoded.image.height = static_cast<int>(header.height);
  decoded.image.pixels.resize(PNG_IMAGE_SIZE(header));
  EXPECT_NE(png_image_finish_read(&header, nullptr, decoded.image.pixels.data(),
                                  0, nullptr),
            0);

  png_structp png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  std::pair<const std::string*, size_t> source(&data, 0);
  png_set_read_fn(png, &source, [](png_structp p, png_bytep out, size_t size) {
    auto* from =
        static_cast<std::pair<const std::string*, size_t>*>(png_get_io_ptr(p));
    from->first->copy(reinterpret_cast<char*>(out), size, from->second);
    from->second += size;
  });
  // Texts must stand before the pixels, where tools find them.
  png_read_info(png, info);
  png_textp texts = nullptr;
  int count = 0;
  png_get_text(png, info, &texts, &count);
  for (int i = 0; i < count; ++i) {
    const bool international =
        texts[i].compression >= PNG_ITXT_COMPRESSION_NONE;
    decoded.texts.emplace_back(
        absl::StrCat(international ? "iTXt:" : "tEXt:", texts[i].key),
        texts[i].text);
  }
  png_destroy_read_struct(&png, &info, nullptr);
  return decoded;
}

RgbImage decode_jpeg(const std::string& data, int* subsampling) {
  RgbImage image;
  tjhandle decoder = tjInitDecompress();
  const auto* bytes = reinterpret_cast<const unsigned char*>(data.data());
  int colourspace = 0;
  EXPECT_EQ(tjDecompressHeader3(decoder, bytes, data.size(), &image.width,
                                &image.height, subsampling, &colourspace),
            0);
  image.pixels.resize(3 * static_cast<size_t>(image.width) *
                      static_cast<size_t>(image.height));
  EXPECT_EQ(tjDecompress2(decoder, bytes, data.size(),
                          reinterpret_cast<unsigned char*>(image.pixels.data()),
                          image.width, 0, image.height, TJPF_RGB, 0),
            0);
  tjDestroy(decoder);
  return image;
}

RgbImage decode_webp(const std::string& data) {
  RgbImage image;
  uint8_t* pixels = WebPDecodeRGB(reinterpret_cast<const uint8_t*>(data.data()),
                                  data.size(), &image.width, &image.height);
  EXPECT_NE(pixels, nullptr);
  if (pixels == nullptr) return image;
  image.pixels.assign(
      reinterpret_cast<const char*>(pixels),
      3 * static_cast<size_t>(image.width) * static_cast<size_t>(image.height));
  WebPFree(pixels);
  return image;
}

// The Exif block of a WebP; empty when there is none.
std::string exif_of_webp(const std::string& data) {
  const WebPData file = {reinterpret_cast<const uint8_t*>(data.data()),
                         data.size()};
  WebPMux* mux = WebPMuxCreate(&file, /*copy_data=*/0);
  EXPECT_NE(mux, nullptr);
  WebPData chunk = {nullptr, 0};
  std::string exif;
  if (WebPMuxGetChunk(mux, "EXIF", &chunk) == WEBP_MUX_OK) {
    exif.assign(reinterpret_cast<const char*>(chunk.bytes), chunk.size);
  }
  WebPMuxDelete(mux);
  return exif;
}

v1::OutputSpec make_output(v1::OutputSpec::Format format, int quality = 95) {
  v1::OutputSpec output;
  output.set_format(format);
  output.set_quality(quality);
  return output;
}

int largest_difference(const RgbImage& a, const RgbImage& b) {
  EXPECT_EQ(a.pixels.size(), b.pixels.size());
  int largest = 0;
  for (size_t i = 0; i < a.pixels.size() && i < b.pixels.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<uint8_t>(a.pixels[i]) -
                                         static_cast<uint8_t>(b.pixels[i])));
  }
  return largest;
}

TEST(PngEncoderTest, KeepsEveryPixel) {
  for (const auto& [width, height] :
       {std::pair(1, 1), std::pair(4096, 1), std::pair(1, 4096),
        std::pair(65, 63), std::pair(kMaxImageEdge, 1)}) {
    const RgbImage image = make_image(width, height);
    const auto png = encode_png(image, {});
    ASSERT_TRUE(png.ok()) << png.status();
    const DecodedPng decoded = decode_png(*png);
    EXPECT_EQ(decoded.image.width, width);
    EXPECT_EQ(decoded.image.height, height);
    EXPECT_TRUE(decoded.image.pixels == image.pixels);
    EXPECT_TRUE(decoded.texts.empty());
  }
}

TEST(PngEncoderTest, CompressesAndIsDeterministic) {
  const RgbImage image = make_smooth_image(256, 256);
  const auto png = encode_png(image, {{"seed", "7"}});
  ASSERT_TRUE(png.ok());
  EXPECT_LT(png->size(), image.pixels.size() / 4);
  EXPECT_EQ(*png, *encode_png(image, {{"seed", "7"}}));
}

TEST(PngEncoderTest, WritesTexts) {
  const std::string long_value(100000, 'x');
  const auto png = encode_png(make_image(3, 2),
                              {{"prompt", "a red circle\nsecond line"},
                               {"negative prompt", "caf\u00e9 \u6771\u4eac"},
                               {"empty", ""},
                               {std::string(79, 'k'), long_value}});
  ASSERT_TRUE(png.ok()) << png.status();
  EXPECT_THAT(
      decode_png(*png).texts,
      ElementsAre(Pair("tEXt:prompt", "a red circle\nsecond line"),
                  Pair("iTXt:negative prompt", "caf\u00e9 \u6771\u4eac"),
                  Pair("tEXt:empty", ""),
                  Pair("tEXt:" + std::string(79, 'k'), long_value)));
}

TEST(PngEncoderTest, RefusesBadTexts) {
  const RgbImage image = make_image(1, 1);
  for (const std::string& key :
       {std::string(), std::string(80, 'k'), std::string(" a"),
        std::string("a "), std::string("a\nb"), std::string("caf\u00e9")}) {
    EXPECT_THAT(std::string(encode_png(image, {{key, ""}}).status().message()),
                HasSubstr("key"));
  }
  for (const std::string& value :
       {std::string("\xff"), std::string("\xc0\x80"), std::string("\xe2\x96"),
        std::string("\xed\xa0\x80"), std::string("\xf4\x90\x80\x80"),
        std::string("a\0b", 3)}) {
    EXPECT_THAT(
        std::string(encode_png(image, {{"k", value}}).status().message()),
        HasSubstr("UTF-8"));
  }
  EXPECT_FALSE(
      encode_png(image, {{"k", std::string((1 << 20) + 1, 'x')}}).ok());
}

TEST(ImageEncodersTest, RefuseBadImages) {
  RgbImage short_by_one = make_image(4, 4);
  short_by_one.pixels.pop_back();
  RgbImage empty;
  RgbImage negative = make_image(2, 2);
  negative.width = -2;
  negative.height = -2;
  RgbImage wide;
  wide.width = kMaxImageEdge + 1;
  wide.height = 1;
  wide.pixels.resize(3 * static_cast<size_t>(wide.width));
  for (const RgbImage& image : {short_by_one, empty, negative, wide}) {
    for (const auto format :
         {v1::OutputSpec::FORMAT_PNG, v1::OutputSpec::FORMAT_JPEG,
          v1::OutputSpec::FORMAT_WEBP, v1::OutputSpec::FORMAT_RAW_RGB8}) {
      EXPECT_EQ(encode_image(make_output(format), image, "").status().code(),
                absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST(JpegEncoderTest, KeepsThePicture) {
  for (const auto& [width, height] :
       {std::pair(1, 1), std::pair(4096, 1), std::pair(64, 48)}) {
    const RgbImage image = make_smooth_image(width, height);
    const auto jpeg = encode_jpeg(image, 95);
    ASSERT_TRUE(jpeg.ok()) << jpeg.status();
    int subsampling = -1;
    const RgbImage decoded = decode_jpeg(*jpeg, &subsampling);
    EXPECT_EQ(decoded.width, width);
    EXPECT_EQ(decoded.height, height);
    EXPECT_EQ(subsampling, TJSAMP_444);
    // A 4096-pixel row wraps its colours around; that edge is hard.
    if (width <= 64) {
      EXPECT_LE(largest_difference(image, decoded), 4);
    }
  }
}

TEST(JpegEncoderTest, QualityCostsBytes) {
  const RgbImage image = make_image(128, 128);
  const auto low = encode_jpeg(image, 1);
  const auto middle = encode_jpeg(image, 75);
  const auto high = encode_jpeg(image, 100);
  ASSERT_TRUE(low.ok() && middle.ok() && high.ok());
  EXPECT_LT(low->size(), middle->size());
  EXPECT_LT(middle->size(), high->size());
  int subsampling = -1;
  decode_jpeg(*middle, &subsampling);
  EXPECT_EQ(subsampling, TJSAMP_420);
  EXPECT_EQ(*middle, *encode_jpeg(image, 75));
}

TEST(JpegEncoderTest, RefusesQualityOutOfRange) {
  for (int quality : {0, 101, -1}) {
    EXPECT_THAT(
        std::string(encode_jpeg(make_image(1, 1), quality).status().message()),
        HasSubstr("quality"));
  }
}

TEST(JpegEncoderTest, HoldsAnExifBlockOfUpTo64KiB) {
  const RgbImage image = make_smooth_image(16, 16);
  const std::string plain = *encode_jpeg(image, 95);
  const auto with_exif = encode_jpeg(image, 95, std::string(65527, 'x'));
  ASSERT_TRUE(with_exif.ok()) << with_exif.status();
  EXPECT_EQ(with_exif->size(), plain.size() + 65527 + 10);
  int subsampling = -1;
  EXPECT_TRUE(decode_jpeg(*with_exif, &subsampling).pixels ==
              decode_jpeg(plain, &subsampling).pixels);
  EXPECT_THAT(
      std::string(
          encode_jpeg(image, 95, std::string(65528, 'x')).status().message()),
      HasSubstr("65528"));
}

TEST(WebpEncoderTest, LosslessKeepsEveryPixel) {
  WebpOptions options;
  options.lossless = true;
  for (const auto& [width, height] :
       {std::pair(1, 1), std::pair(4096, 1), std::pair(1, 4096),
        std::pair(65, 63), std::pair(16383, 1)}) {
    const RgbImage image = make_image(width, height);
    const auto webp = encode_webp(image, options);
    ASSERT_TRUE(webp.ok()) << webp.status();
    const RgbImage decoded = decode_webp(*webp);
    EXPECT_EQ(decoded.width, width);
    EXPECT_EQ(decoded.height, height);
    EXPECT_TRUE(decoded.pixels == image.pixels);
  }
}

TEST(WebpEncoderTest, LossyKeepsThePictureAndQualityCostsBytes) {
  for (const auto& [width, height] :
       {std::pair(1, 1), std::pair(16383, 1), std::pair(64, 48)}) {
    const RgbImage image = make_smooth_image(width, height);
    const auto webp = encode_webp(image, {});
    ASSERT_TRUE(webp.ok()) << webp.status();
    const RgbImage decoded = decode_webp(*webp);
    EXPECT_EQ(decoded.width, width);
    EXPECT_EQ(decoded.height, height);
    // A long row wraps its colours around; that edge is hard.
    if (width <= 64) {
      EXPECT_LE(largest_difference(image, decoded), 8);
    }
  }
  const RgbImage image = make_image(128, 128);
  const auto of_quality = [&](int quality) {
    WebpOptions options;
    options.quality = quality;
    return encode_webp(image, options).value_or("");
  };
  EXPECT_LT(0u, of_quality(1).size());
  EXPECT_LT(of_quality(1).size(), of_quality(75).size());
  EXPECT_LT(of_quality(75).size(), of_quality(100).size());
  EXPECT_EQ(of_quality(75), of_quality(75));
}

TEST(WebpEncoderTest, HoldsAnExifBlock) {
  const RgbImage image = make_image(33, 21);
  WebpOptions options;
  for (const bool lossless : {false, true}) {
    options.lossless = lossless;
    options.exif = {};
    const std::string plain = *encode_webp(image, options);
    EXPECT_EQ(exif_of_webp(plain), "");
    const std::string exif(200001, 'x');
    options.exif = exif;
    const auto with_exif = encode_webp(image, options);
    ASSERT_TRUE(with_exif.ok()) << with_exif.status();
    EXPECT_EQ(exif_of_webp(*with_exif), exif);
    EXPECT_TRUE(decode_webp(*with_exif).pixels == decode_webp(plain).pixels);
  }
}

TEST(WebpEncoderTest, RefusesWhatItCannotHold) {
  for (const bool lossless : {false, true}) {
    WebpOptions options;
    options.lossless = lossless;
    for (const auto& [width, height] :
         {std::pair(16384, 1), std::pair(1, 16384)}) {
      EXPECT_THAT(std::string(encode_webp(make_image(width, height), options)
                                  .status()
                                  .message()),
                  HasSubstr("1 to 16383"));
    }
  }
  for (const int quality : {0, 101, -1}) {
    WebpOptions options;
    options.quality = quality;
    EXPECT_THAT(
        std::string(encode_webp(make_image(1, 1), options).status().message()),
        HasSubstr("quality"));
  }
}

TEST(EncodeImageTest, PicksTheFormat) {
  const RgbImage image = make_image(5, 4);
  const auto encode = [&](const v1::OutputSpec& output) {
    const auto encoded = encode_image(output, image, "");
    EXPECT_TRUE(encoded.ok()) << encoded.status();
    return encoded.value_or(EncodedImage());
  };
  const EncodedImage png = encode(make_output(v1::OutputSpec::FORMAT_PNG));
  EXPECT_EQ(png.mime_type, "image/png");
  EXPECT_EQ(png.data, *encode_png(image, {}));
  EXPECT_EQ(encode({}).data, png.data);
  const EncodedImage jpeg =
      encode(make_output(v1::OutputSpec::FORMAT_JPEG, 80));
  EXPECT_EQ(jpeg.mime_type, "image/jpeg");
  EXPECT_EQ(jpeg.data, *encode_jpeg(image, 80));
  v1::OutputSpec webp = make_output(v1::OutputSpec::FORMAT_WEBP, 80);
  EXPECT_EQ(encode(webp).mime_type, "image/webp");
  EXPECT_EQ(encode(webp).data, *encode_webp(image, {false, 80, ""}));
  webp.set_lossless(true);
  EXPECT_EQ(encode(webp).data, *encode_webp(image, {true, 0, ""}));
  const EncodedImage raw = encode(make_output(v1::OutputSpec::FORMAT_RAW_RGB8));
  EXPECT_EQ(raw.mime_type, "application/octet-stream");
  EXPECT_EQ(raw.data, image.pixels);
  EXPECT_EQ(encode_image(make_output(v1::OutputSpec::FORMAT_MP4), image, "")
                .status()
                .code(),
            absl::StatusCode::kUnimplemented);
}

TEST(EncodeImageTest, WritesTheTextWhereTheFormatHasItsPlace) {
  const RgbImage image = make_image(5, 4);
  const std::string text = "a fox\nSteps: 4";
  const auto encode = [&](v1::OutputSpec::Format format) {
    return encode_image(make_output(format), image, text)->data;
  };
  EXPECT_THAT(
      decode_png(encode(v1::OutputSpec::FORMAT_PNG)).texts,
      ElementsAre(Pair("tEXt:parameters", text),
                  Pair("tEXt:Software", testing::StartsWith("Ferry "))));
  const std::string exif = exif_of_webp(encode(v1::OutputSpec::FORMAT_WEBP));
  EXPECT_THAT(exif, HasSubstr("Ferry "));
  EXPECT_THAT(encode(v1::OutputSpec::FORMAT_JPEG),
              HasSubstr(std::string("Exif\0\0", 6) + exif));
}

}  // namespace
}  // namespace ferry
