#include "server/core/spec_validator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "platform/base/error_info.h"
#include "server/core/testing/test_pipeline.h"

namespace ferry {
namespace {

constexpr int32_t kMin32 = std::numeric_limits<int32_t>::min();
constexpr int32_t kMax32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax64 = std::numeric_limits<int64_t>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

absl::StatusOr<ValidRequest> validate(
    const v1::GenerateRequest& request,
    const v1::Pipeline& pipeline = make_test_pipeline()) {
  return validate_request(request, pipeline, RequestCaps(), [] { return 77; });
}

std::vector<std::string> violated_fields(const absl::Status& status) {
  std::vector<std::string> fields;
  const auto payload =
      status.GetPayload("type.googleapis.com/google.rpc.BadRequest");
  if (!payload.has_value()) return fields;
  google::rpc::BadRequest bad_request;
  EXPECT_TRUE(bad_request.ParseFromString(std::string(*payload)));
  for (const auto& violation : bad_request.field_violations()) {
    EXPECT_NE(violation.description(), "");
    fields.push_back(violation.field());
  }
  return fields;
}

std::string reason_of(const absl::Status& status) {
  return get_error_info(status).value_or(ErrorInfo{}).reason;
}

// One change of a valid request, and what it violates; empty: nothing.
struct Case {
  std::string name;
  std::function<void(v1::GenerateRequest&)> change;
  std::string field;
  std::string reason = "INVALID_FIELD";
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

class FieldTest : public testing::TestWithParam<Case> {};

TEST_P(FieldTest, IsCheckedAtItsBounds) {
  v1::GenerateRequest request = make_test_request();
  GetParam().change(request);
  const auto result = validate(request);
  if (GetParam().field.empty()) {
    EXPECT_TRUE(result.ok()) << result.status();
    return;
  }
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(violated_fields(result.status()),
            std::vector<std::string>{GetParam().field});
  EXPECT_EQ(reason_of(result.status()), GetParam().reason);
  EXPECT_EQ(result.status().code(), GetParam().reason == "FIELD_NOT_SUPPORTED"
                                        ? absl::StatusCode::kUnimplemented
                                        : absl::StatusCode::kInvalidArgument);
}

template <typename T>
void add_cases(std::vector<Case>& cases, const std::string& name,
               const std::string& field, void (*set)(v1::GenerateRequest&, T),
               std::vector<T> good, std::vector<T> bad) {
  for (const bool is_good : {true, false}) {
    for (const T value : is_good ? good : bad) {
      cases.push_back({absl::StrCat(name, "_", cases.size()),
                       [set, value](auto& request) { set(request, value); },
                       is_good ? "" : field});
    }
  }
}

std::vector<Case> number_cases() {
  using Request = v1::GenerateRequest;
  std::vector<Case> cases;
  add_cases<int32_t>(
      cases, "height", "spec.height",
      [](Request& r, int32_t v) { r.mutable_spec()->set_height(v); },
      {64, 80, 512}, {kMin32, -16, -1, 0, 48, 63, 65, 511, 513, 528, kMax32});
  add_cases<int32_t>(
      cases, "width", "spec.width",
      [](Request& r, int32_t v) { r.mutable_spec()->set_width(v); }, {64, 512},
      {kMin32, -64, 0, 48, 72, 513, 528, kMax32});
  add_cases<int32_t>(cases, "steps", "spec.num_inference_steps",
                     [](Request& r, int32_t v) {
                       r.mutable_spec()->set_num_inference_steps(v);
                     },
                     {1, 100}, {kMin32, -1, 0, 101, kMax32});
  add_cases<int32_t>(
      cases, "num_images", "spec.num_images",
      [](Request& r, int32_t v) { r.mutable_spec()->set_num_images(v); },
      {1, 4}, {kMin32, -1, 0, 5, kMax32});
  add_cases<double>(
      cases, "guidance", "spec.guidance_scale",
      [](Request& r, double v) { r.mutable_spec()->set_guidance_scale(v); },
      {0, -0.0, 1e-300, 50},
      {-1e-9, 50.0001, kInfinity, -kInfinity, std::nan("")});
  add_cases<int64_t>(
      cases, "seed", "spec.seed",
      [](Request& r, int64_t v) { r.mutable_spec()->set_seed(v); },
      {0, 1, kMax64}, {kMin64, -1});
  add_cases<int32_t>(cases, "priority", "priority",
                     [](Request& r, int32_t v) { r.set_priority(v); }, {0, 9},
                     {kMin32, -1, 10, kMax32});
  add_cases<int32_t>(
      cases, "interval", "spec.preview.interval_steps",
      [](Request& r, int32_t v) {
        r.mutable_spec()->mutable_preview()->set_interval_steps(v);
      },
      {0, 1, kMax32}, {kMin32, -1});
  add_cases<int32_t>(cases, "max_edge", "spec.preview.max_edge",
                     [](Request& r, int32_t v) {
                       r.mutable_spec()->mutable_preview()->set_max_edge(v);
                     },
                     {0, 1, 1024}, {kMin32, -1, 1025, kMax32});
  // A duration of v nanoseconds.
  add_cases<int64_t>(
      cases, "queue_timeout", "queue_timeout",
      [](Request& r, int64_t v) {
        r.mutable_queue_timeout()->set_seconds(v / 1000000000);
        r.mutable_queue_timeout()->set_nanos(static_cast<int>(v % 1000000000));
      },
      {1, 300000000000}, {0, -1, -1000000001, 300000000001});
  return cases;
}

std::vector<Case> text_cases() {
  using Request = v1::GenerateRequest;
  const auto prompt = [](const std::string& text) {
    return [text](Request& r) { r.mutable_spec()->set_prompt(text); };
  };
  const auto negative = [](const std::string& text) {
    return [text](Request& r) { r.mutable_spec()->set_negative_prompt(text); };
  };
  const auto label = [](const std::string& key, const std::string& value) {
    return [key, value](Request& r) { (*r.mutable_labels())[key] = value; };
  };
  const auto labels = [](int count) {
    return [count](Request& r) {
      for (int i = 0; i < count; ++i) {
        (*r.mutable_labels())[absl::StrCat("key", i)] = "value";
      }
    };
  };
  const auto scheduler = [](const std::string& name) {
    return [name](Request& r) { r.mutable_spec()->set_scheduler(name); };
  };
  return {
      {"prompt_1", prompt("x"), ""},
      {"prompt_max", prompt(std::string(32768, 'x')), ""},
      {"prompt_over", prompt(std::string(32769, 'x')), "spec.prompt"},
      {"prompt_empty", prompt(""), "spec.prompt"},
      {"prompt_nul", prompt(std::string("a\0b", 3)), "spec.prompt"},
      {"prompt_emoji", prompt("😀"), ""},
      {"negative_empty", negative(""), ""},
      {"negative_max", negative(std::string(32768, 'x')), ""},
      {"negative_over", negative(std::string(32769, 'x')),
       "spec.negative_prompt"},
      {"negative_nul", negative(std::string(1, '\0')), "spec.negative_prompt"},
      {"label_max", label(std::string(63, 'k'), std::string(255, 'v')), ""},
      {"label_value_empty", label("k", ""), ""},
      {"label_key_empty", label("", "v"), "labels"},
      {"label_key_over", label(std::string(64, 'k'), "v"), "labels"},
      {"label_value_over", label("k", std::string(256, 'v')), "labels[\"k\"]"},
      {"labels_max", labels(64), ""},
      {"labels_over", labels(65), "labels"},
      {"scheduler_own", scheduler(""), ""},
      {"scheduler_known", scheduler("EulerDiscrete"), ""},
      {"scheduler_unknown", scheduler("Euler"), "spec.scheduler",
       "UNKNOWN_PARAMETER"},
      {"sigmas", [](Request& r) { r.mutable_spec()->add_sigmas(0.5); }, ""},
      {"sigmas_nan",
       [](Request& r) { r.mutable_spec()->add_sigmas(std::nan("")); },
       "spec.sigmas"},
      {"sigmas_and_steps",
       [](Request& r) {
         r.mutable_spec()->add_sigmas(0.5);
         r.mutable_spec()->set_num_inference_steps(1);
       },
       "spec.sigmas", "CONFLICTING_FIELDS"},
      {"queue_timeout_malformed",
       [](Request& r) {
         r.mutable_queue_timeout()->set_seconds(1);
         r.mutable_queue_timeout()->set_nanos(-1);
       },
       "queue_timeout"},
      {"queue_timeout_huge",
       [](Request& r) { r.mutable_queue_timeout()->set_seconds(kMax64); },
       "queue_timeout"},
  };
}

std::string repeat(absl::string_view text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) absl::StrAppend(&result, text);
  return result;
}

std::vector<Case> output_cases() {
  using Request = v1::GenerateRequest;
  const auto format = [](int value) {
    return [value](Request& r) {
      r.mutable_spec()->mutable_output()->set_format(
          static_cast<v1::OutputSpec::Format>(value));
    };
  };
  const auto quality = [](v1::OutputSpec::Format kind, int value) {
    return [=](Request& r) {
      r.mutable_spec()->mutable_output()->set_format(kind);
      r.mutable_spec()->mutable_output()->set_quality(value);
    };
  };
  const auto lossless = [](v1::OutputSpec::Format kind) {
    return [kind](Request& r) {
      r.mutable_spec()->mutable_output()->set_format(kind);
      r.mutable_spec()->mutable_output()->set_lossless(true);
    };
  };
  const auto metadata = [](v1::OutputSpec::Format kind,
                           const std::string& prompt,
                           const std::string& negative) {
    return [=](Request& r) {
      r.mutable_spec()->mutable_output()->set_format(kind);
      r.mutable_spec()->mutable_output()->set_embed_metadata(true);
      r.mutable_spec()->set_prompt(prompt);
      r.mutable_spec()->set_negative_prompt(negative);
    };
  };
  return {
      {"png", format(v1::OutputSpec::FORMAT_PNG), ""},
      {"raw", format(v1::OutputSpec::FORMAT_RAW_RGB8), ""},
      {"jpeg", format(v1::OutputSpec::FORMAT_JPEG), ""},
      {"webp", format(v1::OutputSpec::FORMAT_WEBP), ""},
      {"mp4", format(v1::OutputSpec::FORMAT_MP4), "spec.output.format",
       "FIELD_NOT_SUPPORTED"},
      {"format_unknown", format(99), "spec.output.format"},
      {"format_negative", format(-1), "spec.output.format"},
      {"quality_png", quality(v1::OutputSpec::FORMAT_PNG, 95),
       "spec.output.quality", "CONFLICTING_FIELDS"},
      {"quality_raw", quality(v1::OutputSpec::FORMAT_RAW_RGB8, 95),
       "spec.output.quality", "CONFLICTING_FIELDS"},
      {"quality_jpeg_0", quality(v1::OutputSpec::FORMAT_JPEG, 0),
       "spec.output.quality"},
      {"quality_jpeg_1", quality(v1::OutputSpec::FORMAT_JPEG, 1), ""},
      {"quality_webp_100", quality(v1::OutputSpec::FORMAT_WEBP, 100), ""},
      {"quality_webp_101", quality(v1::OutputSpec::FORMAT_WEBP, 101),
       "spec.output.quality"},
      {"quality_lossless",
       [](Request& r) {
         v1::OutputSpec& output = *r.mutable_spec()->mutable_output();
         output.set_format(v1::OutputSpec::FORMAT_WEBP);
         output.set_lossless(true);
         output.set_quality(95);
       },
       "spec.output.quality", "CONFLICTING_FIELDS"},
      {"lossless_webp", lossless(v1::OutputSpec::FORMAT_WEBP), ""},
      {"lossless_jpeg", lossless(v1::OutputSpec::FORMAT_JPEG),
       "spec.output.lossless", "CONFLICTING_FIELDS"},
      {"lossless_png", lossless(v1::OutputSpec::FORMAT_PNG),
       "spec.output.lossless", "CONFLICTING_FIELDS"},
      {"metadata_raw", metadata(v1::OutputSpec::FORMAT_RAW_RGB8, "a fox", ""),
       "spec.output.embed_metadata", "CONFLICTING_FIELDS"},
      // 2 UTF-8 bytes and 1 UTF-16 unit each, then 4 and 2.
      {"metadata_jpeg_fits",
       metadata(v1::OutputSpec::FORMAT_JPEG, repeat("\u00e9", 16000),
                repeat("\U0001f98a", 8000)),
       ""},
      {"metadata_jpeg_too_long",
       metadata(v1::OutputSpec::FORMAT_JPEG, repeat("\u00e9", 16000),
                repeat("\U0001f98a", 8000) + "a"),
       "spec.output.embed_metadata", "CONFLICTING_FIELDS"},
      {"metadata_webp_long",
       metadata(v1::OutputSpec::FORMAT_WEBP, repeat("a", 32768),
                repeat("a", 32768)),
       ""},
      {"pixels",
       [](Request& r) {
         r.mutable_spec()->set_height(512);
         r.mutable_spec()->set_width(512);
       },
       "spec.height", "LIMIT_EXCEEDED"},
      {"seed_overflow",
       [](Request& r) {
         r.mutable_spec()->set_seed(kMax64);
         r.mutable_spec()->set_num_images(2);
       },
       "spec.seed"},
      {"seed_last",
       [](Request& r) {
         r.mutable_spec()->set_seed(kMax64 - 1);
         r.mutable_spec()->set_num_images(2);
       },
       ""},
  };
}

Case unsupported(const std::string& field,
                 std::function<void(v1::GenerateRequest&)> change) {
  return {field.substr(field.rfind('.') + 1), std::move(change), field,
          "FIELD_NOT_SUPPORTED"};
}

std::vector<Case> unsupported_cases() {
  using Request = v1::GenerateRequest;
  return {
      unsupported("request_id", [](Request& r) { r.set_request_id("a"); }),
      unsupported("detach", [](Request& r) { r.set_detach(true); }),
      unsupported("spec.true_cfg_scale",
                  [](Request& r) { r.mutable_spec()->set_true_cfg_scale(0); }),
      unsupported("spec.input_images",
                  [](Request& r) { r.mutable_spec()->add_input_images(); }),
      unsupported("spec.mask_image",
                  [](Request& r) { r.mutable_spec()->mutable_mask_image(); }),
      unsupported("spec.strength",
                  [](Request& r) { r.mutable_spec()->set_strength(0.5); }),
      unsupported("spec.lora_adapters",
                  [](Request& r) { r.mutable_spec()->add_lora_adapters(); }),
      unsupported(
          "spec.max_sequence_length",
          [](Request& r) { r.mutable_spec()->set_max_sequence_length(0); }),
      unsupported("spec.video",
                  [](Request& r) { r.mutable_spec()->mutable_video(); }),
      unsupported("spec.extra_params",
                  [](Request& r) { r.mutable_spec()->mutable_extra_params(); }),
  };
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Numbers, FieldTest, testing::ValuesIn(number_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Texts, FieldTest, testing::ValuesIn(text_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Outputs, FieldTest, testing::ValuesIn(output_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Unsupported, FieldTest,
                         testing::ValuesIn(unsupported_cases()), case_name);

TEST(SpecValidatorTest, FillsEveryDefaultIn) {
  const auto result = validate(make_test_request(""));
  ASSERT_TRUE(result.ok()) << result.status();
  const v1::GenerationSpec& spec = result->spec;
  EXPECT_EQ(spec.pipeline(), "pipelines/test");
  EXPECT_EQ(spec.height(), 128);
  EXPECT_EQ(spec.width(), 256);
  EXPECT_EQ(spec.num_inference_steps(), 20);
  EXPECT_EQ(spec.guidance_scale(), 3.5);
  EXPECT_EQ(spec.seed(), 77);
  EXPECT_EQ(spec.num_images(), 1);
  EXPECT_EQ(spec.scheduler(), "FlowMatchEulerDiscrete");
  EXPECT_EQ(spec.output().format(), v1::OutputSpec::FORMAT_PNG);
  EXPECT_FALSE(spec.has_negative_prompt());
  EXPECT_EQ(result->queue_timeout, absl::Seconds(300));
}

TEST(SpecValidatorTest, LossyFormatsGetTheirQuality) {
  const auto quality_of = [](v1::OutputSpec::Format format, bool lossless) {
    v1::GenerateRequest request = make_test_request();
    request.mutable_spec()->mutable_output()->set_format(format);
    request.mutable_spec()->mutable_output()->set_lossless(lossless);
    const auto result = validate(request);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() && result->spec.output().has_quality()
               ? result->spec.output().quality()
               : 0;
  };
  EXPECT_EQ(quality_of(v1::OutputSpec::FORMAT_JPEG, false), 95);
  EXPECT_EQ(quality_of(v1::OutputSpec::FORMAT_WEBP, false), 95);
  EXPECT_EQ(quality_of(v1::OutputSpec::FORMAT_WEBP, true), 0);
  EXPECT_EQ(quality_of(v1::OutputSpec::FORMAT_PNG, false), 0);
  EXPECT_EQ(quality_of(v1::OutputSpec::FORMAT_RAW_RGB8, false), 0);
}

TEST(SpecValidatorTest, AWebpEndsOnePixelBelowTheLargestEdge) {
  v1::Pipeline pipeline = make_test_pipeline();
  pipeline.mutable_limits()->set_size_multiple(1);
  pipeline.mutable_limits()->set_max_edge(0);
  pipeline.mutable_limits()->set_max_pixels(0);
  const auto validate_edge = [&](v1::OutputSpec::Format format, int width) {
    v1::GenerateRequest request = make_test_request();
    request.mutable_spec()->mutable_output()->set_format(format);
    request.mutable_spec()->set_width(width);
    return validate(request, pipeline).status();
  };
  EXPECT_TRUE(validate_edge(v1::OutputSpec::FORMAT_WEBP, 16383).ok());
  EXPECT_TRUE(validate_edge(v1::OutputSpec::FORMAT_JPEG, 16384).ok());
  EXPECT_EQ(violated_fields(validate_edge(v1::OutputSpec::FORMAT_WEBP, 16384)),
            std::vector<std::string>{"spec.output.format"});
  EXPECT_EQ(violated_fields(validate_edge(v1::OutputSpec::FORMAT_WEBP, 16385)),
            std::vector<std::string>{"spec.width"});
}

TEST(SpecValidatorTest, KeepsWhatIsSetAlsoWhenItIsZero) {
  v1::GenerateRequest request = make_test_request();
  request.mutable_spec()->set_guidance_scale(0);
  request.mutable_spec()->set_seed(0);
  request.mutable_spec()->set_negative_prompt("");
  request.mutable_queue_timeout()->set_seconds(2);
  request.set_priority(9);
  (*request.mutable_labels())["user"] = "me";
  const auto result = validate(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->spec.has_guidance_scale());
  EXPECT_EQ(result->spec.guidance_scale(), 0);
  EXPECT_EQ(result->spec.seed(), 0);
  EXPECT_EQ(result->queue_timeout, absl::Seconds(2));
  EXPECT_EQ(result->priority, 9);
  EXPECT_EQ(result->labels.at("user"), "me");
}

TEST(SpecValidatorTest, NamesEveryViolationAtOnce) {
  v1::GenerateRequest request;
  request.set_priority(-1);
  request.set_detach(true);
  v1::GenerationSpec& spec = *request.mutable_spec();
  spec.set_height(65);
  spec.set_width(0);
  spec.set_num_images(0);
  spec.set_num_inference_steps(0);
  spec.set_guidance_scale(std::nan(""));
  spec.set_seed(-1);
  spec.set_scheduler("?");
  spec.mutable_video();
  spec.mutable_preview()->set_max_edge(-1);
  const auto result = validate(request);
  const std::vector<std::string> fields = violated_fields(result.status());
  EXPECT_EQ(std::set<std::string>(fields.begin(), fields.end()),
            (std::set<std::string>{
                "priority", "detach", "spec.prompt", "spec.height",
                "spec.width", "spec.num_images", "spec.num_inference_steps",
                "spec.guidance_scale", "spec.seed", "spec.scheduler",
                "spec.video", "spec.preview.max_edge"}));
  EXPECT_EQ(fields.size(), 12u);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(reason_of(result.status()), "INVALID_FIELD");
}

TEST(SpecValidatorTest, NamesTheNearestSizes) {
  v1::GenerateRequest request = make_test_request();
  request.mutable_spec()->set_height(70);
  EXPECT_EQ(get_error_info(validate(request).status())->metadata.at("nearest"),
            "64 or 80");
}

TEST(SpecValidatorTest, MultipliesIn64Bits) {
  v1::Pipeline pipeline = make_test_pipeline();
  pipeline.mutable_limits()->set_max_edge(kMax32);
  pipeline.mutable_limits()->set_max_pixels(0);
  pipeline.mutable_limits()->set_max_images(16);
  RequestCaps caps;
  caps.max_pixels = kMax64;
  caps.max_images = 16;
  caps.max_request_pixels = (int64_t{1} << 32) - 1;
  v1::GenerateRequest request = make_test_request();
  // The product is 2^32: zero in 32 bits.
  request.mutable_spec()->set_height(1 << 14);
  request.mutable_spec()->set_width(1 << 14);
  request.mutable_spec()->set_num_images(16);
  const auto result =
      validate_request(request, pipeline, caps, [] { return 1; });
  EXPECT_EQ(reason_of(result.status()), "LIMIT_EXCEEDED");
  EXPECT_EQ(get_error_info(result.status())->metadata.at("value"),
            "4294967296");
}

TEST(SpecValidatorTest, CapsThePixelsOfAllImages) {
  RequestCaps caps;
  caps.max_request_pixels = 128 * 256 * 2;
  v1::GenerateRequest request = make_test_request();
  request.mutable_spec()->set_num_images(2);
  const auto draw = [] { return 1; };
  EXPECT_TRUE(validate_request(request, make_test_pipeline(), caps, draw).ok());
  request.mutable_spec()->set_num_images(3);
  const auto result =
      validate_request(request, make_test_pipeline(), caps, draw);
  EXPECT_EQ(violated_fields(result.status()),
            std::vector<std::string>{"spec.num_images"});
  EXPECT_EQ(reason_of(result.status()), "LIMIT_EXCEEDED");
}

TEST(SpecValidatorTest, RefusesNegativePromptsWhereOnlyTheScaleCounts) {
  v1::Pipeline pipeline = make_test_pipeline();
  pipeline.mutable_defaults()->clear_negative_prompt();
  v1::GenerateRequest request = make_test_request();
  request.mutable_spec()->set_guidance_scale(3);
  EXPECT_TRUE(validate(request, pipeline).ok());
  request.mutable_spec()->set_negative_prompt("");
  EXPECT_EQ(violated_fields(validate(request, pipeline).status()),
            std::vector<std::string>{"spec.negative_prompt"});
}

TEST(SpecValidatorTest, ANegativePromptNeedsAScaleAboveOne) {
  const auto validate_scale = [](std::optional<double> scale,
                                 const std::string& negative,
                                 double default_scale = 3.5) {
    v1::Pipeline pipeline = make_test_pipeline();
    pipeline.mutable_defaults()->set_guidance_scale(default_scale);
    v1::GenerateRequest request = make_test_request();
    v1::GenerationSpec* const spec = request.mutable_spec();
    spec->set_negative_prompt(negative);
    if (scale.has_value()) spec->set_guidance_scale(*scale);
    return validate(request, pipeline);
  };
  for (double scale : {0.0, 0.5, 1.0}) {
    EXPECT_EQ(violated_fields(validate_scale(scale, "blurry").status()),
              std::vector<std::string>{"spec.negative_prompt"});
    // Also where the pipeline's default is what counts.
    EXPECT_EQ(
        violated_fields(validate_scale(std::nullopt, "a", scale).status()),
        std::vector<std::string>{"spec.negative_prompt"});
    // What asks for nothing is not shown; sent again, it is accepted again.
    const auto empty = validate_scale(scale, "");
    ASSERT_TRUE(empty.ok()) << empty.status();
    EXPECT_FALSE(empty->spec.has_negative_prompt());
    v1::GenerateRequest again;
    *again.mutable_spec() = empty->spec;
    EXPECT_TRUE(validate(again).ok());
  }
  for (double scale : {1.0000001, 3.0, 50.0}) {
    for (const char* negative : {"", "blurry"}) {
      const auto result = validate_scale(scale, negative, 1.0);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_TRUE(result->spec.has_negative_prompt());
    }
  }
  // A scale that is wrong is one violation, not two.
  EXPECT_EQ(violated_fields(validate_scale(-1, "blurry").status()),
            std::vector<std::string>{"spec.guidance_scale"});
}

TEST(SpecValidatorTest, RefusesGuidanceWhereThereIsNone) {
  v1::Pipeline pipeline = make_test_pipeline();
  pipeline.mutable_defaults()->clear_guidance_scale();
  pipeline.mutable_defaults()->clear_negative_prompt();
  const auto plain = validate(make_test_request(), pipeline);
  ASSERT_TRUE(plain.ok());
  EXPECT_FALSE(plain->spec.has_guidance_scale());
  v1::GenerateRequest request = make_test_request();
  request.mutable_spec()->set_guidance_scale(3);
  request.mutable_spec()->set_negative_prompt("");
  EXPECT_EQ(violated_fields(validate(request, pipeline).status()),
            (std::vector<std::string>{"spec.negative_prompt",
                                      "spec.guidance_scale"}));
}

TEST(SpecValidatorTest, RefusesTasksThatThePipelineDoesNot) {
  v1::Pipeline pipeline = make_test_pipeline();
  pipeline.set_tasks(0, "text-to-video");
  const auto result = validate(make_test_request(), pipeline);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(reason_of(result.status()), "TASK_NOT_SUPPORTED");
}

TEST(SpecValidatorTest, RefusesFieldsOfNewerClients) {
  v1::GenerateRequest request = make_test_request();
  request.mutable_spec()
      ->GetReflection()
      ->MutableUnknownFields(request.mutable_spec())
      ->AddVarint(999, 1);
  const auto result = validate(request);
  EXPECT_EQ(violated_fields(result.status()),
            std::vector<std::string>{"spec.999"});
  EXPECT_EQ(reason_of(result.status()), "UNKNOWN_PARAMETER");
}

TEST(SpecValidatorTest, ALongKeyOfALabelIsCutBetweenCharacters) {
  v1::GenerateRequest request = make_test_request();
  std::string key;
  for (int i = 0; i < 40; ++i) key += "\xC3\xA9";
  (*request.mutable_labels())[key] = std::string(256, 'v');
  EXPECT_EQ(violated_fields(validate(request).status()),
            (std::vector<std::string>{
                "labels", "labels[\"" + key.substr(0, 60) + "…\"]"}));
}

TEST(SpecValidatorTest, LimitsAreTheLowerOnesOfPipelineAndServer) {
  v1::Limits limits;
  RequestCaps caps;
  v1::Limits effective = effective_limits(limits, caps);
  EXPECT_EQ(effective.size_multiple(), 1);
  EXPECT_EQ(effective.min_edge(), 1);
  EXPECT_EQ(effective.max_pixels(), caps.max_pixels);
  EXPECT_EQ(effective.max_images(), caps.max_images);
  EXPECT_EQ(effective.max_num_inference_steps(), 200);
  limits.set_max_images(1000);
  limits.set_max_pixels(100);
  effective = effective_limits(limits, caps);
  EXPECT_EQ(effective.max_images(), caps.max_images);
  EXPECT_EQ(effective.max_pixels(), 100);
}

TEST(SpecValidatorTest, DrawnSeedsDifferAndAreExactDoubles) {
  std::set<int64_t> seeds;
  for (int i = 0; i < 100; ++i) {
    const int64_t seed = draw_random_seed();
    EXPECT_GE(seed, 0);
    EXPECT_LT(seed, int64_t{1} << 53);
    seeds.insert(seed);
  }
  EXPECT_EQ(seeds.size(), 100u);
}

}  // namespace
}  // namespace ferry
