#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/ops/tensor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "pipelines/schedulers/load_noise_scheduler.h"
#include "pipelines/schedulers/sigma_grids.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kTolerance = 1e-6;

std::filesystem::path write_config(const std::string& text) {
  static int count = 0;
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) /
      absl::StrCat("scheduler_config_", ++count, ".json");
  std::ofstream(file) << text;
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

absl::StatusOr<std::unique_ptr<NoiseScheduler>> load_euler(
    const std::string& options) {
  return load("{\"_class_name\": \"EulerDiscreteScheduler\"" + options + "}");
}

// The polynomial of make_scheduler_goldens.py, in the same order of operations.
at::Tensor model(const at::Tensor& sample, float timestep) {
  const float t = timestep * 0.0009765625f;
  return sample * 0.5 + sample * sample * 0.03125 * at::tensor(1.0f - t) +
         at::tensor(t * 0.25f) - 0.125;
}

std::vector<double> to_vector(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kDouble).contiguous();
  return {values.const_data_ptr<double>(),
          values.const_data_ptr<double>() + values.numel()};
}

template <typename T>
void expect_close(const std::vector<T>& actual,
                  const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  double scale = 0;
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    scale = std::max(scale, std::abs(expected[i]));
    // NaN must not compare as close.
    ASSERT_TRUE(std::isfinite(actual[i]));
    worst = std::max(worst, std::abs(actual[i] - expected[i]));
  }
  EXPECT_LE(worst, kTolerance * scale);
}

void check_run(const NoiseScheduler& scheduler, const nlohmann::json& test_case,
               const nlohmann::json& run,
               const std::vector<float>& initial_noise) {
  NoiseScheduleOptions options;
  options.num_inference_steps = run["num_inference_steps"].get<int>();
  if (run.contains("custom_sigmas")) {
    options.sigmas = run["custom_sigmas"].get<std::vector<double>>();
  }
  if (test_case.contains("image_seq_len")) {
    options.image_seq_len = test_case["image_seq_len"].get<int64_t>();
  }
  const auto schedule = scheduler.make_schedule(options);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  NoiseSchedule& sampler = **schedule;
  expect_close(sampler.timesteps(),
               run["timesteps"].get<std::vector<double>>());
  expect_close(sampler.sigmas(), run["sigmas"].get<std::vector<double>>());
  expect_close(std::vector<float>{sampler.init_noise_sigma()},
               {run["init_noise_sigma"].get<double>()});
  at::Tensor sample =
      at::tensor(initial_noise) * at::tensor(sampler.init_noise_sigma());
  ASSERT_EQ(run["samples"].size(), static_cast<size_t>(sampler.num_steps()));
  for (int i = 0; i < sampler.num_steps(); ++i) {
    SCOPED_TRACE(absl::StrCat("step ", i));
    const at::Tensor output =
        model(sampler.scale_model_input(sample, i), sampler.timesteps()[i]);
    sample = sampler.step(output, i, sample);
    expect_close(to_vector(sample),
                 run["samples"][i].get<std::vector<double>>());
  }
}

TEST(NoiseSchedulerTest, FollowsDiffusersTrajectories) {
  std::ifstream file("pipelines/schedulers/testdata/scheduler_goldens.json");
  ASSERT_TRUE(file) << "goldens are missing";
  const nlohmann::json goldens = nlohmann::json::parse(file);
  ASSERT_GE(goldens["cases"].size(), 16u);
  const auto noise = goldens["initial_noise"].get<std::vector<float>>();
  for (const nlohmann::json& test_case : goldens["cases"]) {
    SCOPED_TRACE(test_case["name"].get<std::string>());
    const auto scheduler = load(test_case["config"].dump());
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    for (const nlohmann::json& run : test_case["runs"]) {
      SCOPED_TRACE(absl::StrCat(run["num_inference_steps"].dump(), " steps"));
      check_run(**scheduler, test_case, run, noise);
    }
  }
}

TEST(NoiseSchedulerTest, SchedulesAreIndependent) {
  const auto scheduler = load_flow("");
  ASSERT_TRUE(scheduler.ok()) << scheduler.status();
  NoiseScheduleOptions options;
  options.num_inference_steps = 4;
  const auto first = (*scheduler)->make_schedule(options);
  options.num_inference_steps = 2;
  const auto second = (*scheduler)->make_schedule(options);
  EXPECT_EQ((*first)->num_steps(), 4);
  EXPECT_EQ((*first)->sigmas().size(), 5u);
  EXPECT_EQ((*second)->num_steps(), 2);
}

TEST(NoiseSchedulerTest, StepComputesInFloat32AndReturnsTheModelsType) {
  for (const auto& scheduler : {load_flow(""), load_euler("")}) {
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    NoiseScheduleOptions options;
    options.num_inference_steps = 3;
    const auto schedule = (*scheduler)->make_schedule(options);
    const at::Tensor sample = at::tensor({1.5f, -0.75f}).to(at::kBFloat16);
    const at::Tensor output = at::tensor({0.375f, 1.25f}).to(at::kBFloat16);
    EXPECT_EQ((*schedule)->scale_model_input(sample, 0).scalar_type(),
              at::kBFloat16);
    const at::Tensor next = (*schedule)->step(output, 0, sample);
    EXPECT_EQ(next.scalar_type(), at::kBFloat16);
    // Both are Euler's step x + (sigma' - sigma) v here.
    const double dt = (*schedule)->sigmas()[1] - (*schedule)->sigmas()[0];
    EXPECT_NEAR(to_vector(next)[0], 1.5 + dt * 0.375,
                std::abs(dt) * 0.375 / 100 + 0.01);
    // The caller's latents are left alone.
    EXPECT_EQ(to_vector(sample)[0], 1.5);
  }
}

TEST(NoiseSchedulerTest, NamesItself) {
  EXPECT_EQ((*load_flow(""))->name(), "FlowMatchEulerDiscrete");
  EXPECT_EQ((*load_euler(""))->name(), "EulerDiscrete");
  EXPECT_FALSE((*load_flow(""))->needs_image_seq_len());
  EXPECT_TRUE(
      (*load_flow(", \"use_dynamic_shifting\": true"))->needs_image_seq_len());
}

TEST(NoiseSchedulerTest, MakesEveryNumberOfStepsInItsRange) {
  const auto check = [](const auto& scheduler, int min) {
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    const StepRange range = (*scheduler)->step_range();
    EXPECT_EQ(range.min, min);
    NoiseScheduleOptions options;
    options.num_inference_steps = min;
    EXPECT_TRUE((*scheduler)->make_schedule(options).ok());
    options.num_inference_steps = min - 1;
    EXPECT_FALSE((*scheduler)->make_schedule(options).ok());
  };
  check(load_flow(""), 1);
  check(load_flow(", \"shift_terminal\": 0.02"), 2);
  const auto euler = load_euler(", \"num_train_timesteps\": 50");
  check(euler, 1);
  EXPECT_EQ((*euler)->step_range().max, 50);
}

TEST(NoiseSchedulerTest, TrailingSpacingMakesTheStepsThatWereAskedFor) {
  // NumPy's arange, which diffusers uses, makes 62 of 61.
  const auto scheduler = load_euler(", \"timestep_spacing\": \"trailing\"");
  NoiseScheduleOptions options;
  options.num_inference_steps = 61;
  const auto schedule = (*scheduler)->make_schedule(options);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ((*schedule)->num_steps(), 61);
  EXPECT_EQ((*schedule)->sigmas().size(), 62u);
  EXPECT_EQ((*schedule)->timesteps().front(), 999.0f);
}

TEST(NoiseSchedulerTest, RefusesSchedulesThatCannotBe) {
  NoiseScheduleOptions none;
  NoiseScheduleOptions one;
  one.num_inference_steps = 1;
  NoiseScheduleOptions many;
  many.num_inference_steps = 1001;
  NoiseScheduleOptions lone_sigma;
  lone_sigma.sigmas = {1.0};
  NoiseScheduleOptions zero_sigma;
  zero_sigma.sigmas = {1.0, 0.0, 0.0};
  const auto status = [](const auto& scheduler, const auto& options) {
    return (*scheduler)->make_schedule(options).status();
  };
  EXPECT_THAT(std::string(status(load_flow(""), none).message()),
              HasSubstr("num_inference_steps"));
  EXPECT_THAT(std::string(status(load_euler(""), none).message()),
              HasSubstr("num_inference_steps"));
  EXPECT_THAT(std::string(status(load_euler(""), many).message()),
              HasSubstr("1 to 1000"));
  EXPECT_FALSE(status(load_euler(""), lone_sigma).ok());
  EXPECT_THAT(std::string(status(load_euler(""), zero_sigma).message()),
              HasSubstr("noise level 0 at step 1"));
  // Stretching one level from 1 to the terminal divides by zero.
  EXPECT_FALSE(status(load_flow(", \"shift_terminal\": 0.1"), one).ok());
  EXPECT_THAT(
      std::string(
          status(load_flow(", \"use_dynamic_shifting\": true"), one).message()),
      HasSubstr("image tokens"));
}

TEST(NoiseSchedulerTest, RefusesBadFiles) {
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
      HasSubstr("shift twice"));
}

TEST(NoiseSchedulerTest, RefusesUnknownClassesAndSaysWhichThereAre) {
  const auto status = load("{\"_class_name\": \"DDIMScheduler\"}").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("DDIMScheduler"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("EulerDiscreteScheduler"));
}

TEST(NoiseSchedulerTest, NamesEveryBadKeyAtOnce) {
  const auto status =
      load_flow(
          ", \"shift\": \"3\", \"num_train_timesteps\": 1000.5,"
          "\"invert_sigmas\": 1, \"time_shift_type\": \"cubic\","
          "\"stochastic_sampling\": true, \"mystery\": 1,"
          "\"_diffusers_version\": \"0.42.1\"")
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("scheduler_config_"));
  for (const char* part :
       {"shift must be a number", "num_train_timesteps must be an integer",
        "invert_sigmas must be true or false",
        "time_shift_type must be one of exponential, linear",
        "stochastic_sampling is not supported", "mystery is no option"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
  EXPECT_THAT(message, Not(HasSubstr("_diffusers_version")));
}

TEST(NoiseSchedulerTest, RefusesOptionsThatItDoesNotImplement) {
  for (const char* option :
       {"\"use_beta_sigmas\": true", "\"trained_betas\": [0.1]",
        "\"use_karras_sigmas\": true, \"use_exponential_sigmas\": true",
        "\"beta_schedule\": \"sigmoid\"", "\"sigma_min\": -1",
        "\"beta_start\": 1e400", "\"shift\": 3.0"}) {
    EXPECT_FALSE(load_euler(absl::StrCat(", ", option)).ok()) << option;
  }
  for (const char* option :
       {"\"use_beta_sigmas\": true", "\"shift\": 0", "\"beta_start\": 0.1",
        "\"use_karras_sigmas\": true, \"use_exponential_sigmas\": true",
        "\"base_image_seq_len\": 4096", "\"shift_terminal\": 1"}) {
    EXPECT_FALSE(load_flow(absl::StrCat(", ", option)).ok()) << option;
  }
}

TEST(NoiseSchedulerTest, ReadsWhatDiffusersWritesForRealModels) {
  EXPECT_TRUE(load_euler(", \"_diffusers_version\": \"0.19.0.dev0\","
                         "\"beta_end\": 0.012, \"beta_start\": 0.00085,"
                         "\"beta_schedule\": \"scaled_linear\","
                         "\"clip_sample\": false, \"sample_max_value\": 1.0,"
                         "\"set_alpha_to_one\": false,"
                         "\"skip_prk_steps\": true, \"steps_offset\": 1,"
                         "\"interpolation_type\": \"linear\","
                         "\"timestep_spacing\": \"leading\","
                         "\"trained_betas\": null")
                  .ok());
  EXPECT_TRUE(load_flow(", \"shift_terminal\": null, \"shift\": 3,"
                        "\"stochastic_sampling\": false,"
                        "\"use_beta_sigmas\": false")
                  .ok());
}

TEST(SigmaGridsTest, LinspaceHitsBothEnds) {
  EXPECT_EQ(linspace(1, 3, 3), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(linspace(5, 0.1, 1), (std::vector<double>{5}));
  EXPECT_EQ(linspace(0, 0.3, 4).back(), 0.3);
  EXPECT_EQ(flow_pipeline_sigmas(4), (std::vector<double>{1, 0.75, 0.5, 0.25}));
}

TEST(SigmaGridsTest, ShiftIsLinearInImageTokens) {
  EXPECT_DOUBLE_EQ(calculate_shift({}, 256), 0.5);
  EXPECT_DOUBLE_EQ(calculate_shift({}, 4096), 1.15);
  EXPECT_DOUBLE_EQ(calculate_shift({}, 2176), 0.825);
}

}  // namespace
}  // namespace ferry
