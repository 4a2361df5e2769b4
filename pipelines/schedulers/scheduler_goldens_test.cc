// Compares whole trajectories with diffusers' (tools/goldens).

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/ops/tensor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "pipelines/schedulers/load_noise_scheduler.h"
#include "pipelines/schedulers/noise_source.h"

namespace ferry {
namespace {

constexpr double kTolerance = 1e-6;

absl::StatusOr<std::unique_ptr<NoiseScheduler>> load(
    const nlohmann::json& config) {
  const std::string file = testing::TempDir() + "/golden_scheduler_config.json";
  std::ofstream(file) << config.dump();
  return load_noise_scheduler(file);
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
               const nlohmann::json& run, const nlohmann::json& goldens) {
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
  // DDIM has none in diffusers.
  if (run.contains("sigmas")) {
    expect_close(sampler.sigmas(), run["sigmas"].get<std::vector<double>>());
  }
  expect_close(std::vector<float>{sampler.init_noise_sigma()},
               {run["init_noise_sigma"].get<double>()});
  const auto noise = goldens["initial_noise"].get<std::vector<float>>();
  at::Tensor sample =
      at::tensor(noise).unsqueeze(0) * at::tensor(sampler.init_noise_sigma());
  NoiseSource source(goldens["seed"].get<int64_t>(), 1);
  ASSERT_EQ(run["samples"].size(), static_cast<size_t>(sampler.num_steps()));
  for (int i = 0; i < sampler.num_steps(); ++i) {
    SCOPED_TRACE(absl::StrCat("step ", i));
    const at::Tensor output =
        model(sampler.scale_model_input(sample, i), sampler.timesteps()[i]);
    sample = sampler.step(output, i, sample, source);
    expect_close(to_vector(sample),
                 run["samples"][i].get<std::vector<double>>());
  }
}

TEST(SchedulerGoldensTest, FollowsDiffusersTrajectories) {
  std::ifstream file("pipelines/schedulers/testdata/scheduler_goldens.json");
  ASSERT_TRUE(file) << "goldens are missing";
  const nlohmann::json goldens = nlohmann::json::parse(file);
  std::map<std::string, int> cases;
  for (const nlohmann::json& test_case : goldens["cases"]) {
    SCOPED_TRACE(test_case["name"].get<std::string>());
    const auto scheduler = load(test_case["config"]);
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    ++cases[(*scheduler)->name()];
    for (const nlohmann::json& run : test_case["runs"]) {
      SCOPED_TRACE(absl::StrCat(run["num_inference_steps"].dump(), " steps"));
      check_run(**scheduler, test_case, run, goldens);
    }
  }
  // Every NoiseScheduler is there, with many of its options.
  EXPECT_EQ(cases.size(), 7u);
  for (const auto& [name, count] : cases) EXPECT_GE(count, 3) << name;
  EXPECT_GE(goldens["cases"].size(), 80u);
}

}  // namespace
}  // namespace ferry
