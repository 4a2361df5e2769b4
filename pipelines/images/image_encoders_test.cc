#include <png.h>
#include <turbojpeg.h>

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
          v1::OutputSpec::FORMAT_RAW_RGB8}) {
      EXPECT_EQ(encode_image(format, image, 95, {}).status().code(),
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

TEST(EncodeImageTest, PicksTheFormat) {
  const RgbImage image = make_image(5, 4);
  const auto png =
      encode_image(v1::OutputSpec::FORMAT_PNG, image, 95, {{"seed", "1"}});
  ASSERT_TRUE(png.ok());
  EXPECT_EQ(png->mime_type, "image/png");
  EXPECT_THAT(decode_png(png->data).texts, ElementsAre(Pair("tEXt:seed", "1")));
  EXPECT_EQ(encode_image(v1::OutputSpec::FORMAT_UNSPECIFIED, image, 95, {})
                ->mime_type,
            "image/png");
  const auto jpeg = encode_image(v1::OutputSpec::FORMAT_JPEG, image, 80, {});
  ASSERT_TRUE(jpeg.ok());
  EXPECT_EQ(jpeg->mime_type, "image/jpeg");
  EXPECT_EQ(jpeg->data, *encode_jpeg(image, 80));
  const auto raw = encode_image(v1::OutputSpec::FORMAT_RAW_RGB8, image, 95, {});
  ASSERT_TRUE(raw.ok());
  EXPECT_EQ(raw->mime_type, "application/octet-stream");
  EXPECT_EQ(raw->data, image.pixels);
  EXPECT_EQ(
      encode_image(v1::OutputSpec::FORMAT_MP4, image, 95, {}).status().code(),
      absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace ferry
