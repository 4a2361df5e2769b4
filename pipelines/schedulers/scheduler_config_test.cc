#include "pipelines/schedulers/scheduler_config.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipelines/schedulers/load_noise_scheduler.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::filesystem::path write_config(const std::string& text) {
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / "scheduler_config_test.json";
  std::ofstream(file, std::ios::binary) << text;
  return file;
}

absl::StatusOr<std::unique_ptr<NoiseScheduler>> load(const std::string& text) {
  return load_noise_scheduler(write_config(text));
}

absl::StatusOr<std::unique_ptr<NoiseScheduler>> load_flow(
    const std::string& options) {
  return load("{\"_class_name\": \"FlowMatchEulerDiscreteScheduler\"" +
              options + "}");
}

TEST(SchedulerConfigTest, RefusesBadFiles) {
  const auto missing = load_noise_scheduler("/nonexistent/config.json");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("/nonexistent/config.json"));
  for (const char* text :
       {"", "[]", "{", "{\"shift\": 1}", "{\"_class_name\": 3}",
        "{\"_class_name\": \"FlowMatchEulerDiscreteScheduler\"} x"}) {
    EXPECT_EQ(load(text).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_THAT(
      std::string(load(std::string((1 << 20) + 1, ' ')).status().message()),
      HasSubstr("1 MiB"));
  EXPECT_THAT(
      std::string(load_flow(", \"shift\": 1, \"shift\": 3").status().message()),
      HasSubstr("\"shift\" twice"));
}

TEST(SchedulerConfigTest, RefusesUnknownClassesAndSaysWhichThereAre) {
  const auto status = load("{\"_class_name\": \"PNDMScheduler\"}").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("PNDMScheduler"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("EulerDiscreteScheduler"));
}

TEST(SchedulerConfigTest, NamesEveryBadKeyAtOnce) {
  const auto status =
      load_flow(
          ", \"shift\": \"3\", \"num_train_timesteps\": 1000.5,"
          "\"invert_sigmas\": 1, \"time_shift_type\": \"cubic\","
          "\"stochastic_sampling\": true, \"mystery\": 1,"
          "\"_diffusers_version\": \"0.42.1\"")
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("scheduler_config_test.json: "));
  for (const char* part :
       {"shift must be a number", "num_train_timesteps must be an integer",
        "invert_sigmas must be true or false",
        "time_shift_type must be one of exponential, linear",
        "stochastic_sampling is not supported", "mystery is no option"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
  EXPECT_THAT(message, Not(HasSubstr("_diffusers_version")));
}

// Derives `class_name` from a file and makes it.
absl::StatusOr<std::unique_ptr<NoiseScheduler>> derive(
    const std::string& file, const std::string& class_name,
    const std::string& options) {
  const auto base = SchedulerConfig::load(write_config(file));
  EXPECT_TRUE(base.ok()) << base.status();
  auto derived = base->derive(class_name, options, "choices[0]");
  if (!derived.ok()) return derived.status();
  EXPECT_EQ(derived->class_name(), class_name);
  return make_noise_scheduler(*std::move(derived));
}

constexpr char kFlowFile[] =
    R"({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 3.0,
        "use_dynamic_shifting": true, "invert_sigmas": false})";

TEST(SchedulerConfigTest, DerivesAsFromConfigDoes) {
  // What the class has no use for is dropped, the rest is kept.
  const auto unipc = derive(
      kFlowFile, "UniPCMultistepScheduler",
      R"({"prediction_type": "flow_prediction", "use_flow_sigmas": true})");
  ASSERT_TRUE(unipc.ok()) << unipc.status();
  EXPECT_EQ((*unipc)->prediction(), Prediction::kFlow);
  EXPECT_TRUE((*unipc)->needs_image_seq_len());
  // Without options, and options over what the file says.
  const auto same = derive(kFlowFile, "FlowMatchEulerDiscreteScheduler", "");
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_TRUE((*same)->needs_image_seq_len());
  const auto changed = derive(kFlowFile, "FlowMatchEulerDiscreteScheduler",
                              R"({"use_dynamic_shifting": false})");
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_FALSE((*changed)->needs_image_seq_len());
  // Names of one solver's types that the other knows.
  EXPECT_TRUE(derive(R"({"_class_name": "DPMSolverMultistepScheduler",
                         "solver_type": "heun"})",
                     "UniPCMultistepScheduler", "")
                  .ok());
}

TEST(SchedulerConfigTest, DerivedOptionsAreChecked) {
  const auto error = [](const std::string& options) {
    const absl::Status status =
        derive(kFlowFile, "UniPCMultistepScheduler", options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << options;
    return std::string(status.message());
  };
  EXPECT_THAT(error(R"({"mystery": 1, "solver_order": 9})"),
              HasSubstr("choices[0]: solver_order must be"));
  EXPECT_THAT(error(R"({"mystery": 1, "solver_order": 9})"),
              HasSubstr("mystery is no option of UniPCMultistepScheduler"));
  // The file may have it, whoever asks for it means something by it.
  EXPECT_THAT(error(R"({"invert_sigmas": false})"),
              HasSubstr("invert_sigmas is no option"));
  EXPECT_THAT(error("{"), HasSubstr("choices[0] options: is no JSON"));
  EXPECT_THAT(error("[]"), HasSubstr("is no JSON object"));
  EXPECT_THAT(error(R"({"shift": 1, "shift": 2})"),
              HasSubstr("\"shift\" twice"));
}

TEST(SchedulerConfigTest, ReadsNumbersAsPythonDoes) {
  const auto value = [](const std::string& text) {
    auto config = SchedulerConfig::parse("{\"n\": " + text + "}", "file");
    EXPECT_TRUE(config.ok()) << config.status();
    const int64_t number = config->get_int("n", 7, 1, 5000);
    return config->finish().ok() ? number : -1;
  };
  EXPECT_EQ(value("1000"), 1000);
  EXPECT_EQ(value("1000.0"), 1000);
  EXPECT_EQ(value("1e3"), 1000);
  EXPECT_EQ(value("null"), 7);
  for (const char* text : {"1000.5", "5001.0", "1e300", "-1.0", "\"1000\"",
                           "true", "[1000]", "-Infinity"}) {
    EXPECT_EQ(value(text), -1) << text;
  }
  auto config =
      SchedulerConfig::parse(R"({"steps": [0.0, 2], "none": null})", "file");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->get_int_list("steps"), (std::vector<int64_t>{0, 2}));
  EXPECT_TRUE(config->get_int_list("none").empty());
}

TEST(SchedulerConfigTest, NullIsAnUnsetOptionAndNoSwitch) {
  auto config = SchedulerConfig::parse(
      R"({"on": null, "number": null, "choice": null, "refused": null})",
      "file");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->get_bool("on", true));
  EXPECT_EQ(config->get_double("number", 1.5), 1.5);
  EXPECT_EQ(config->get_optional_double("number"), std::nullopt);
  EXPECT_EQ(config->get_choice("choice", "b", {"a", "b"}), "b");
  config->refuse("refused");
  EXPECT_TRUE(config->finish().ok()) << config->finish();
  EXPECT_TRUE(load_flow(R"(, "shift": null, "num_train_timesteps": 1000.0,
                          "time_shift_type": null, "shift_terminal": null)")
                  .ok());
}

TEST(SchedulerConfigTest, KeysThatWereNotSetAreAbsent) {
  const auto scheduler = load_flow(
      R"(, "use_dynamic_shifting": true, "shift": "seven", "mystery": 1,
         "_use_default_values": ["shift", "mystery", "absent"])");
  ASSERT_TRUE(scheduler.ok()) << scheduler.status();
  EXPECT_TRUE((*scheduler)->needs_image_seq_len());
}

TEST(SchedulerConfigTest, NothingStandsBehindTheObjectOrBeforeIt) {
  const std::string object = R"({"_class_name": "DDIMScheduler"})";
  EXPECT_TRUE(load(object + " \r\n\t").ok());
  const std::vector<std::pair<std::string, std::string>> cases = {
      {object + std::string(1, '\0'), "is no JSON from byte 33 on"},
      {object + std::string("\0, \"clip_sample\": false", 24),
       "is no JSON from byte 33 on"},
      {object + object, "is no JSON from byte"},
      {object + "NaN", "is no JSON from byte"},
      {"\xEF\xBB\xBF" + object, "begins with a byte order mark (BOM)"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
       "is a Git LFS pointer; fetch the file with git lfs pull"},
      {"{\"_class_name\": \"\xFF\"}", "is no UTF-8"},
  };
  for (const auto& [text, told] : cases) {
    const std::string message(load(text).status().message());
    EXPECT_THAT(message, HasSubstr("scheduler_config_test.json: "));
    EXPECT_THAT(message, HasSubstr(told));
  }
}

TEST(SchedulerConfigTest, ResolvesClassNames) {
  EXPECT_EQ(resolve_class_name("DDIMScheduler"), "DDIMScheduler");
  EXPECT_EQ(resolve_class_name("FlaxDDIMScheduler"), "DDIMScheduler");
  EXPECT_EQ(resolve_class_name("FlashPackDDIMScheduler"), "DDIMScheduler");
  EXPECT_EQ(resolve_class_name(""), "");
}

TEST(SchedulerConfigTest, MinusInfinityIsANumberOnlyWhereItMeansSomething) {
  const std::string dpm = R"({"_class_name": "DPMSolverMultistepScheduler", )";
  EXPECT_TRUE(load(dpm + R"("lambda_min_clipped": -Infinity})").ok());
  for (const char* option :
       {R"("beta_start": -Infinity)", R"("lambda_min_clipped": Infinity)",
        R"("lambda_min_clipped": NaN)", R"("beta_start": 1e400)"}) {
    EXPECT_FALSE(load(absl::StrCat(dpm, option, "}")).ok()) << option;
  }
  // Text is left alone, also behind a quoted quote.
  const absl::Status status =
      load(dpm + R"("solver_type": "\"-Infinity"})").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("solver_type"));
}

}  // namespace
}  // namespace ferry
