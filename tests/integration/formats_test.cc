// Every format that the daemon gives, read by other programs than those that
// wrote it.

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/child_process.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/files.h"
#include "tests/support/generate_call.h"
#include "tests/support/packages.h"
#include "tests/support/picture.h"
#include "tests/support/png_image.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using v1::OutputSpec;

// A way to ask for an output, and what comes.
struct Format {
  std::string name;
  OutputSpec output;
  std::string mime_type;
  // As Pillow calls it; empty: not a file.
  std::string pillow;
  // Every pixel is kept.
  bool exact = false;
  // Where the text lies.
  std::string text_key;
};

std::ostream& operator<<(std::ostream& out, const Format& format) {
  return out << format.name;
}

OutputSpec make_output(OutputSpec::Format format, bool lossless = false) {
  OutputSpec output;
  output.set_format(format);
  output.set_lossless(lossless);
  return output;
}

std::vector<Format> formats() {
  return {
      {"default", OutputSpec(), "image/png", "PNG", true, "parameters"},
      {"png", make_output(OutputSpec::FORMAT_PNG), "image/png", "PNG", true,
       "parameters"},
      {"jpeg", make_output(OutputSpec::FORMAT_JPEG), "image/jpeg", "JPEG",
       false, "UserComment"},
      {"webp", make_output(OutputSpec::FORMAT_WEBP), "image/webp", "WEBP",
       false, "UserComment"},
      {"webp_lossless", make_output(OutputSpec::FORMAT_WEBP, true),
       "image/webp", "WEBP", true, "UserComment"},
      {"raw", make_output(OutputSpec::FORMAT_RAW_RGB8),
       "application/octet-stream", "", true, ""},
  };
}

// Mean difference of two pictures' values, 0 to 255.
double mean_difference(const std::string& a, const std::string& b) {
  EXPECT_EQ(a.size(), b.size());
  if (a.empty() || a.size() != b.size()) return 255;
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += std::abs(static_cast<uint8_t>(a[i]) - static_cast<uint8_t>(b[i]));
  }
  return sum / static_cast<double>(a.size());
}

class FormatsTest : public SharedDaemonFixture<FormatsTest> {
 public:
  static Daemon::Options options() {
    Daemon::Options options;
    options.pipelines = {{"tiny", make_package()}};
    return options;
  }

 protected:
  struct Output {
    std::string data;
    v1::OutputInfo info;
    OutputSpec effective;
  };

  static v1::GenerateRequest request_for(const OutputSpec& output) {
    v1::GenerateRequest request = make_request(4321);
    // More than one macroblock, and no multiple of one.
    request.mutable_spec()->set_width(72);
    request.mutable_spec()->set_height(40);
    *request.mutable_spec()->mutable_output() = output;
    return request;
  }

  // The one output of a request that must succeed.
  static Output generate(const v1::GenerateRequest& request) {
    GenerateCall call(generation(), request);
    EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
    EXPECT_THAT(call.outputs(), SizeIs(1));
    EXPECT_THAT(call.job().outputs(), SizeIs(1));
    if (call.outputs().empty() || call.job().outputs().empty()) return {};
    return {call.outputs().at(0), call.job().outputs(0),
            call.job().effective_spec().output()};
  }

  // The pixels of request_for(), as the worker had them.
  static const std::string& pixels() {
    static const auto* const raw = new std::string(
        generate(request_for(make_output(OutputSpec::FORMAT_RAW_RGB8))).data);
    return *raw;
  }
};

class EachFormatTest : public FormatsTest,
                       public testing::WithParamInterface<Format> {};

TEST_P(EachFormatTest, PillowSeesThePicture) {
  const Output output = generate(request_for(GetParam().output));
  EXPECT_EQ(output.info.mime_type(), GetParam().mime_type);
  EXPECT_EQ(output.info.width(), 72);
  EXPECT_EQ(output.info.height(), 40);
  EXPECT_EQ(output.info.size_bytes(), static_cast<int64_t>(output.data.size()));
  EXPECT_EQ(output.info.sha256(), sha256_hex(output.data));
  if (GetParam().pillow.empty()) {
    EXPECT_EQ(output.data.size(), size_t{72} * 40 * 3);
    return;
  }
  const auto picture = read_picture(output.data);
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_EQ(picture->format, GetParam().pillow);
  EXPECT_EQ(picture->mode, "RGB");
  EXPECT_EQ(picture->width, 72);
  EXPECT_EQ(picture->height, 40);
  EXPECT_THAT(picture->texts, IsEmpty());
  if (GetParam().exact) {
    EXPECT_TRUE(picture->pixels == pixels());
  } else {
    EXPECT_LT(mean_difference(picture->pixels, pixels()), 12);
  }
}

TEST_P(EachFormatTest, MetadataIsWhereOtherToolsLook) {
  if (GetParam().text_key.empty()) return;
  v1::GenerateRequest request = request_for(GetParam().output);
  v1::GenerationSpec& spec = *request.mutable_spec();
  spec.set_prompt("caf\u00e9, \u6771\u4eac,\na \U0001f98a");
  spec.set_negative_prompt("blurry");
  spec.set_guidance_scale(2.5);
  const Output plain = generate(request);
  spec.mutable_output()->set_embed_metadata(true);
  const Output told = generate(request);
  const auto picture = read_picture(told.data);
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_THAT(picture->texts,
              UnorderedElementsAre(
                  Pair(GetParam().text_key,
                       StartsWith("caf\u00e9, \u6771\u4eac,\na \U0001f98a\n"
                                  "Negative prompt: blurry\n"
                                  "Steps: 4, Sampler: FlowMatchEulerDiscrete, "
                                  "CFG scale: 2.5, Seed: 4321, Size: 72x40, "
                                  "Model: tiny, Version: Ferry ")),
                  Pair("Software", StartsWith("Ferry "))));
  // The picture itself is the same.
  EXPECT_TRUE(picture->pixels == read_picture(plain.data)->pixels);
}

TEST_P(EachFormatTest, TheLongestPromptFits) {
  if (GetParam().text_key.empty()) return;
  v1::GenerateRequest request = request_for(GetParam().output);
  v1::GenerationSpec& spec = *request.mutable_spec();
  const bool jpeg = GetParam().output.format() == OutputSpec::FORMAT_JPEG;
  spec.set_prompt(std::string(jpeg ? 32000 : 32768, 'a'));
  if (!jpeg) spec.set_negative_prompt(std::string(32768, 'b'));
  spec.mutable_output()->set_embed_metadata(true);
  const auto picture = read_picture(generate(request).data);
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_THAT(picture->texts.at(GetParam().text_key), HasSubstr(spec.prompt()));
}

TEST_P(EachFormatTest, OmittingTheBytesChangesNothingElse) {
  v1::GenerateRequest request = request_for(GetParam().output);
  const Output whole = generate(request);
  request.mutable_spec()->mutable_output()->set_omit_data(true);
  const Output omitted = generate(request);
  EXPECT_EQ(omitted.data, "");
  EXPECT_EQ(omitted.info.DebugString(), whole.info.DebugString());
  EXPECT_EQ(omitted.info.sha256(), sha256_hex(whole.data));
}

TEST_P(EachFormatTest, TheEffectiveOutputGivesTheSameBytes) {
  const Output output = generate(request_for(GetParam().output));
  EXPECT_NE(output.effective.format(), OutputSpec::FORMAT_UNSPECIFIED);
  EXPECT_EQ(output.effective.quality(), GetParam().exact ? 0 : 95);
  EXPECT_TRUE(generate(request_for(output.effective)).data == output.data);
}

// The pipeline's own bounds.
TEST_P(EachFormatTest, SmallestAndLargestPictures) {
  for (const int edge : {16, 128}) {
    v1::GenerateRequest request = request_for(GetParam().output);
    request.mutable_spec()->set_width(edge);
    request.mutable_spec()->set_height(edge);
    const Output output = generate(request);
    if (GetParam().pillow.empty()) {
      EXPECT_EQ(output.data.size(), 3u * edge * edge);
      continue;
    }
    const auto picture = read_picture(output.data);
    ASSERT_TRUE(picture.ok()) << picture.status();
    EXPECT_EQ(picture->width, edge);
    EXPECT_EQ(picture->height, edge);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, EachFormatTest, testing::ValuesIn(formats()),
                         [](const auto& info) { return info.param.name; });

TEST_F(FormatsTest, QualityCostsBytesAndBuysLikeness) {
  for (const auto format : {OutputSpec::FORMAT_JPEG, OutputSpec::FORMAT_WEBP}) {
    std::vector<size_t> sizes;
    std::vector<double> differences;
    for (const int quality : {1, 50, 100}) {
      OutputSpec output = make_output(format);
      output.set_quality(quality);
      sizes.push_back(generate(request_for(output)).data.size());
      const auto picture = read_picture(generate(request_for(output)).data);
      ASSERT_TRUE(picture.ok()) << picture.status();
      differences.push_back(mean_difference(picture->pixels, pixels()));
    }
    EXPECT_LT(sizes[0], sizes[1]);
    EXPECT_LT(sizes[1], sizes[2]);
    EXPECT_GT(differences[0], differences[1]);
    EXPECT_GT(differences[1], differences[2]);
  }
}

TEST_F(FormatsTest, EveryPictureOfSeveralIsEncodedAndHasItsSeed) {
  OutputSpec output = make_output(OutputSpec::FORMAT_WEBP, true);
  output.set_embed_metadata(true);
  v1::GenerateRequest request = request_for(output);
  request.mutable_spec()->set_num_images(3);
  GenerateCall call(generation(), request);
  ASSERT_TRUE(call.finish().ok()) << describe(call.finish());
  ASSERT_THAT(call.outputs(), SizeIs(3));
  for (int i = 0; i < 3; ++i) {
    const auto picture = read_picture(call.outputs().at(i));
    ASSERT_TRUE(picture.ok()) << picture.status();
    EXPECT_THAT(picture->texts.at("UserComment"),
                HasSubstr(absl::StrCat(", Seed: ", 4321 + i, ",")));
  }
}

TEST_F(FormatsTest, FerryctlTakesTheFormatFromTheFilesName) {
  const std::string directory = make_directory("ferryctl");
  for (const auto& [name, format] :
       {std::pair("fox.png", "PNG"), std::pair("fox.jpg", "JPEG"),
        std::pair("fox.webp", "WEBP"), std::pair("fox", "PNG")}) {
    const std::string path = absl::StrCat(directory, "/", name);
    ChildProcess::Options options;
    options.arguments = {runfile("client/ferryctl"),
                         absl::StrCat("--address=", daemon().address()),
                         "generate",
                         "a fox",
                         "-o",
                         path,
                         "--embed-metadata"};
    const ProcessResult result = run_process(options);
    EXPECT_EQ(result.exit.code, 0) << result.err;
    const auto picture = read_picture(read_file(path).value_or(""));
    ASSERT_TRUE(picture.ok()) << picture.status();
    EXPECT_EQ(picture->format, format) << name;
    EXPECT_FALSE(picture->texts.empty());
  }
}

}  // namespace
}  // namespace ferry
