// Compares single steps with diffusers' (tools/goldens). Every step starts from
// the inputs that diffusers had, since a trajectory amplifies the last bits,
// which differ between processors. The bound of each number comes with it: it
// is what two processors may differ by, and follows from the step's condition.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ATen/Version.h"
#include "ATen/ops/tensor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "pipelines/schedulers/load_noise_scheduler.h"
#include "pipelines/schedulers/noise_source.h"

namespace ferry {
namespace {

// Steps of one NoiseScheduler, of all its cases.
struct StepCounts {
  int cases = 0;
  int compared = 0;
  // So ill-conditioned that their bound says nothing.
  int left_out = 0;
};

absl::StatusOr<std::unique_ptr<NoiseScheduler>> load(
    const nlohmann::json& config) {
  const std::string file = testing::TempDir() + "/golden_scheduler_config.json";
  std::ofstream(file) << config.dump();
  return load_noise_scheduler(file);
}

std::vector<double> to_vector(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kDouble).contiguous();
  return {values.const_data_ptr<double>(),
          values.const_data_ptr<double>() + values.numel()};
}

std::vector<double> to_vector(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// A batch of one.
at::Tensor to_tensor(const nlohmann::json& values) {
  return at::tensor(values.get<std::vector<float>>()).unsqueeze(0);
}

// `bounds` has one bound for each value, or one for all.
void expect_within(const std::vector<double>& actual,
                   const nlohmann::json& expected,
                   const std::vector<double>& bounds) {
  ASSERT_EQ(actual.size(), expected.size());
  ASSERT_TRUE(bounds.size() == actual.size() || bounds.size() == 1);
  for (size_t i = 0; i < actual.size(); ++i) {
    // The shortest decimals of a float.
    const double golden = expected[i].get<float>();
    const double difference = std::abs(actual[i] - golden);
    // NaN is not within it.
    EXPECT_LE(difference, bounds[bounds.size() == 1 ? 0 : i])
        << "value " << i << " is " << actual[i] << ", expected " << golden;
  }
}

void expect_within(const std::vector<double>& actual,
                   const nlohmann::json& goldens, const std::string& values,
                   const std::string& bounds) {
  SCOPED_TRACE(values);
  expect_within(actual, goldens[values],
                goldens[bounds].get<std::vector<double>>());
}

// The steps are made in order, so that a sampler remembers of earlier ones what
// their recorded inputs say.
void check_steps(NoiseSchedule& schedule, const nlohmann::json& steps,
                 int64_t seed, StepCounts* counts) {
  NoiseSource source(seed, 1);
  ASSERT_EQ(steps["results"].size(), static_cast<size_t>(schedule.num_steps()));
  for (int i = 0; i < schedule.num_steps(); ++i) {
    SCOPED_TRACE(absl::StrCat("step ", i));
    const at::Tensor sample = to_tensor(steps["samples"][i]);
    const at::Tensor input = schedule.scale_model_input(sample, i);
    if (steps.contains("model_inputs")) {
      expect_within(to_vector(input), steps["model_inputs"][i],
                    {steps["model_input_bounds"][i].get<double>()});
    } else {
      EXPECT_TRUE(input.equal(sample));
    }
    const std::vector<double> result = to_vector(
        schedule.step(to_tensor(steps["outputs"][i]), i, sample, source));
    const nlohmann::json& bound = steps["bounds"][i];
    if (bound.is_null()) {
      ++counts->left_out;
      continue;
    }
    ++counts->compared;
    expect_within(result, steps["results"][i], {bound.get<double>()});
  }
}

void check_run(const NoiseScheduler& scheduler, const nlohmann::json& test_case,
               const nlohmann::json& run, int64_t seed, StepCounts* counts) {
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
  expect_within(to_vector((*schedule)->timesteps()), run, "timesteps",
                "timestep_bounds");
  // DDIM has none in diffusers.
  if (run.contains("sigmas")) {
    expect_within(to_vector((*schedule)->sigmas()), run, "sigmas",
                  "sigma_bounds");
  }
  expect_within({(*schedule)->init_noise_sigma()}, run, "init_noise_sigma",
                "init_noise_sigma_bound");
  if (run.contains("steps")) {
    check_steps(**schedule, run["steps"], seed, counts);
  }
}

TEST(SchedulerGoldensTest, MakesTheStepsOfDiffusers) {
  std::ifstream file("pipelines/schedulers/testdata/scheduler_goldens.json");
  ASSERT_TRUE(file) << "goldens are missing";
  const nlohmann::json goldens = nlohmann::json::parse(file);
  const int64_t seed = goldens["seed"].get<int64_t>();
  std::map<std::string, StepCounts> schedulers;
  for (const nlohmann::json& test_case : goldens["cases"]) {
    SCOPED_TRACE(test_case["name"].get<std::string>());
    const auto scheduler = load(test_case["config"]);
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    StepCounts& counts = schedulers[(*scheduler)->name()];
    ++counts.cases;
    for (const nlohmann::json& run : test_case["runs"]) {
      SCOPED_TRACE(absl::StrCat(run["num_inference_steps"].dump(), " steps"));
      check_run(**scheduler, test_case, run, seed, &counts);
    }
  }
  // Every NoiseScheduler is there, with many of its options, and few steps are
  // left out.
  EXPECT_EQ(schedulers.size(), 7u);
  EXPECT_GE(goldens["cases"].size(), 80u);
  for (const auto& [name, counts] : schedulers) {
    EXPECT_GE(counts.cases, 3) << name;
    EXPECT_LE(counts.left_out, counts.compared / 20) << name;
  }
}

// As tests/run_on_cpus does, or rows of it would show nothing.
TEST(SchedulerGoldensTest, RunsTheKernelsThatTheEnvironmentAsksFor) {
  const char* asked_for = std::getenv("ATEN_CPU_CAPABILITY");
  const std::string used = absl::AsciiStrToLower(at::get_cpu_capability());
  if (asked_for == nullptr) {
    EXPECT_NE(used, "");
  } else {
    EXPECT_EQ(used, asked_for);
  }
}

}  // namespace
}  // namespace ferry
