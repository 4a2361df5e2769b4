#include "pipelines/schedulers/noise_scheduler.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/tensor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipelines/schedulers/load_noise_scheduler.h"
#include "pipelines/schedulers/mu.h"
#include "pipelines/schedulers/noise_source.h"
#include "pipelines/schedulers/pipeline_grid.h"
#include "pipelines/schedulers/sigma_grids.h"
#include "pipelines/schedulers/timestep_spacing.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

constexpr char kFlow[] = "FlowMatchEulerDiscrete";
constexpr char kEuler[] = "EulerDiscrete";
constexpr char kAncestral[] = "EulerAncestralDiscrete";
constexpr char kDdim[] = "DDIM";
constexpr char kCogVideoX[] = "CogVideoXDDIM";
constexpr char kDpm[] = "DPMSolverMultistep";
constexpr char kUniPc[] = "UniPCMultistep";
constexpr const char* kAll[] = {kFlow,      kEuler, kAncestral, kDdim,
                                kCogVideoX, kDpm,   kUniPc};
constexpr char kFlowSolver[] =
    R"("prediction_type": "flow_prediction", "use_flow_sigmas": true)";

// `options`: members of a JSON object.
absl::StatusOr<std::unique_ptr<NoiseScheduler>> load(
    const std::string& name, const std::string& options = "") {
  const std::string file = testing::TempDir() + "/scheduler_config.json";
  std::ofstream(file) << "{\"_class_name\": \"" << name << "Scheduler\""
                      << (options.empty() ? "" : ", ") << options << "}";
  return load_noise_scheduler(file);
}

std::string load_error(const std::string& name, const std::string& options) {
  const absl::Status status = load(name, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << options;
  return std::string(status.message());
}

NoiseScheduleOptions steps(int count) {
  NoiseScheduleOptions options;
  options.num_inference_steps = count;
  return options;
}

NoiseScheduleOptions sigmas(const std::vector<double>& sigmas) {
  NoiseScheduleOptions options;
  options.sigmas = sigmas;
  return options;
}

std::string schedule_error(const std::string& name, const std::string& options,
                           const NoiseScheduleOptions& request) {
  const auto scheduler = load(name, options);
  if (!scheduler.ok()) return scheduler.status().ToString();
  const absl::Status status = (*scheduler)->make_schedule(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

std::vector<double> to_vector(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kDouble).contiguous();
  return {values.const_data_ptr<double>(),
          values.const_data_ptr<double>() + values.numel()};
}

// A generation without a model: its output is the sample's half.
class Sampling {
 public:
  Sampling(const NoiseScheduler& scheduler, int steps_count, int64_t seed,
           int64_t pictures)
      : schedule_(*scheduler.make_schedule(steps(steps_count))),
        noise_(seed, pictures),
        sample_(noise_.draw({pictures, 4}) * schedule_->init_noise_sigma()) {}

  void step(int i) {
    sample_ = schedule_->step(schedule_->scale_model_input(sample_, i) * 0.5, i,
                              sample_, noise_);
  }
  at::Tensor finish() {
    for (int i = 0; i < schedule_->num_steps(); ++i) step(i);
    return sample_;
  }
  const at::Tensor& sample() const { return sample_; }

 private:
  const std::unique_ptr<NoiseSchedule> schedule_;
  NoiseSource noise_;
  at::Tensor sample_;
};

TEST(NoiseSchedulerTest, NamesItself) {
  for (const char* name : kAll) {
    const auto scheduler = load(name);
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    EXPECT_EQ((*scheduler)->name(), name);
    EXPECT_EQ((*scheduler)->prediction(), name == std::string(kFlow)
                                              ? Prediction::kFlow
                                              : Prediction::kEpsilon);
    EXPECT_FALSE((*scheduler)->needs_image_seq_len());
  }
  for (const char* name : {kFlow, kDpm, kUniPc}) {
    const auto scheduler =
        load(name, absl::StrCat(name == std::string(kFlow) ? "" : kFlowSolver,
                                name == std::string(kFlow) ? "" : ", ",
                                "\"use_dynamic_shifting\": true"));
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    EXPECT_TRUE((*scheduler)->needs_image_seq_len());
    EXPECT_EQ((*scheduler)->prediction(), Prediction::kFlow);
    EXPECT_THAT(
        std::string((*scheduler)->make_schedule(steps(3)).status().message()),
        HasSubstr("image tokens"));
  }
}

TEST(NoiseSchedulerTest, SaysHowItTakesSigmas) {
  EXPECT_EQ((*load(kFlow))->custom_sigmas(), CustomSigmas::kPerStep);
  EXPECT_EQ((*load(kEuler))->custom_sigmas(), CustomSigmas::kWithLast);
  EXPECT_EQ((*load(kUniPc, kFlowSolver))->custom_sigmas(),
            CustomSigmas::kPerStep);
  for (const char* name : {kAncestral, kDdim, kCogVideoX, kDpm, kUniPc}) {
    EXPECT_EQ((*load(name))->custom_sigmas(), CustomSigmas::kRefused) << name;
    EXPECT_THAT(schedule_error(name, "", sigmas({1.0, 0.5})),
                HasSubstr("custom sigmas"));
  }
  const auto schedule =
      (*load(kUniPc, kFlowSolver))->make_schedule(sigmas({0.75, 0.5, 0.25}));
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ((*schedule)->sigmas(), (std::vector<float>{0.75, 0.5, 0.25, 0}));
}

TEST(NoiseSchedulerTest, MakesEveryNumberOfStepsInItsRange) {
  const auto check = [](const char* name, const std::string& options, int min,
                        int max) {
    SCOPED_TRACE(absl::StrCat(name, " ", options));
    const auto scheduler = load(name, options);
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    EXPECT_EQ((*scheduler)->step_range().min, min);
    for (int n = min; n <= std::min(max, 60); ++n) {
      const auto schedule = (*scheduler)->make_schedule(steps(n));
      ASSERT_TRUE(schedule.ok()) << n << ": " << schedule.status();
      EXPECT_EQ((*schedule)->num_steps(), n);
    }
    EXPECT_FALSE((*scheduler)->make_schedule(steps(min - 1)).ok());
    if (max == std::numeric_limits<int>::max()) return;
    EXPECT_EQ((*scheduler)->step_range().max, max);
    EXPECT_TRUE((*scheduler)->make_schedule(steps(max)).ok());
    EXPECT_FALSE((*scheduler)->make_schedule(steps(max + 1)).ok());
  };
  const int unbounded = std::numeric_limits<int>::max();
  const std::string train_50 = R"("num_train_timesteps": 50)";
  check(kFlow, "", 1, unbounded);
  check(kFlow, R"("shift_terminal": 0.02)", 2, unbounded);
  check(kUniPc, absl::StrCat(kFlowSolver, R"(, "shift_terminal": 0.02)"), 2,
        999);
  for (const std::string spacing : {"linspace", "leading", "trailing"}) {
    const std::string options =
        absl::StrCat(train_50, R"(, "timestep_spacing": ")", spacing, "\"");
    for (const char* name : {kEuler, kAncestral, kDdim, kCogVideoX}) {
      check(name, options, 1, 50);
    }
    for (const char* name : {kDpm, kUniPc}) check(name, options, 1, 49);
  }
}

TEST(NoiseSchedulerTest, TrailingSpacingMakesTheStepsThatWereAskedFor) {
  // NumPy's arange, which diffusers uses, makes 62 of 61.
  for (const char* name : {kEuler, kAncestral, kDdim, kDpm, kUniPc}) {
    const auto schedule = (*load(name, R"("timestep_spacing": "trailing")"))
                              ->make_schedule(steps(61));
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    EXPECT_EQ((*schedule)->num_steps(), 61);
    EXPECT_EQ((*schedule)->sigmas().size(), 62u);
    EXPECT_EQ((*schedule)->timesteps().front(), 999.0f);
  }
}

TEST(NoiseSchedulerTest, RefusesSchedulesThatCannotBe) {
  EXPECT_THAT(schedule_error(kFlow, "", steps(0)),
              HasSubstr("num_inference_steps"));
  EXPECT_THAT(schedule_error(kEuler, "", steps(0)),
              HasSubstr("num_inference_steps"));
  EXPECT_THAT(schedule_error(kEuler, "", steps(1001)), HasSubstr("1 to 1000"));
  EXPECT_THAT(schedule_error(kDpm, "", steps(1000)), HasSubstr("1 to 999"));
  EXPECT_THAT(schedule_error(kUniPc, "", steps(1000)), HasSubstr("1 to 999"));
  EXPECT_THAT(schedule_error(kEuler, "", sigmas({1.0})), HasSubstr("last"));
  EXPECT_THAT(schedule_error(kEuler, "", sigmas({1.0, 0.0, 0.0})),
              HasSubstr("step 2 would go from 0 to 0"));
  // Stretching one level from 1 to the terminal divides by zero.
  EXPECT_THAT(schedule_error(kFlow, R"("shift_terminal": 0.1)", steps(1)),
              HasSubstr("noise levels"));
  // The highest timestep would be one after the last.
  EXPECT_THAT(schedule_error(kDdim, R"("steps_offset": 1)", steps(1000)),
              HasSubstr("no timestep 1000"));
  EXPECT_THAT(schedule_error(kDdim,
                             R"("rescale_betas_zero_snr": true,
                        "timestep_spacing": "trailing")",
                             steps(5)),
              HasSubstr("pure noise"));
  // Equal levels would divide by zero.
  EXPECT_THAT(schedule_error(kUniPc, kFlowSolver, sigmas({0.5, 0.5})),
              HasSubstr("step 1 would go from 0.5 to 0.5"));
  EXPECT_THAT(schedule_error(kUniPc, kFlowSolver, sigmas({2.0, 0.5})),
              HasSubstr("less than 1"));
}

TEST(NoiseSchedulerTest, StepComputesInFloat32AndReturnsTheModelsType) {
  for (const char* name : kAll) {
    SCOPED_TRACE(name);
    const auto schedule = *(*load(name))->make_schedule(steps(3));
    NoiseSource noise(1, 1);
    const at::Tensor sample = at::tensor({1.5f, -0.75f}).to(at::kBFloat16);
    const at::Tensor output = at::tensor({0.375f, 1.25f}).to(at::kBFloat16);
    EXPECT_EQ(schedule->scale_model_input(sample, 0).scalar_type(),
              at::kBFloat16);
    const at::Tensor next =
        schedule->step(output.unsqueeze(0), 0, sample.unsqueeze(0), noise);
    EXPECT_EQ(next.scalar_type(), at::kBFloat16);
    // The caller's latents are left alone.
    EXPECT_EQ(to_vector(sample)[0], 1.5);
  }
}

TEST(NoiseSchedulerTest, SchedulesAreIndependent) {
  for (const char* name : kAll) {
    SCOPED_TRACE(name);
    const auto scheduler = *load(name);
    const at::Tensor expected = Sampling(*scheduler, 6, 1, 1).finish();
    Sampling first(*scheduler, 6, 1, 1);
    Sampling second(*scheduler, 9, 2, 1);
    for (int i = 0; i < 6; ++i) {
      first.step(i);
      second.step(i);
    }
    EXPECT_TRUE(first.sample().equal(expected));
    EXPECT_FALSE(second.sample().equal(expected));
  }
}

TEST(NoiseSchedulerTest, APictureOfABatchIsThePictureAlone) {
  for (const std::string options :
       {"", R"("algorithm_type": "sde-dpmsolver++")"}) {
    for (const char* name : kAll) {
      if (!options.empty() && name != std::string(kDpm)) continue;
      SCOPED_TRACE(name);
      const auto scheduler = *load(name, options);
      const at::Tensor batch = Sampling(*scheduler, 5, 10, 2).finish();
      EXPECT_TRUE(
          batch.equal(at::cat({Sampling(*scheduler, 5, 10, 1).finish(),
                               Sampling(*scheduler, 5, 11, 1).finish()})));
    }
  }
}

TEST(NoiseSchedulerTest, RefusesOptionsThatItDoesNotImplement) {
  struct Refusal {
    const char* name;
    std::string options;
    const char* told;
  };
  const std::vector<Refusal> refusals = {
      {kFlow, R"("use_beta_sigmas": true)", "use_beta_sigmas"},
      {kFlow, R"("stochastic_sampling": true)", "stochastic_sampling"},
      {kFlow, R"("shift": 0)", "shift"},
      {kFlow, R"("beta_start": 0.1)", "beta_start is no option"},
      {kFlow, R"("base_image_seq_len": 4096)", "max_image_seq_len"},
      {kFlow, R"("shift_terminal": 1)", "shift_terminal"},
      {kEuler, R"("use_beta_sigmas": true)", "use_beta_sigmas"},
      {kEuler, R"("trained_betas": [0.1])", "trained_betas"},
      {kEuler, R"("beta_schedule": "sigmoid")", "beta_schedule must be one"},
      {kEuler, R"("sigma_min": -1)", "sigma_min"},
      {kEuler, R"("shift": 3.0)", "shift is no option"},
      {kEuler, R"("use_karras_sigmas": true, "use_exponential_sigmas": true)",
       "exclude each other"},
      {kAncestral, R"("prediction_type": "sample")", "prediction_type"},
      {kAncestral, R"("mystery": 1)", "mystery is no option"},
      {kDdim, R"("thresholding": true)", "thresholding"},
      {kDdim, R"("timestep_spacing": "middle")", "timestep_spacing"},
      {kDdim, R"("snr_shift_scale": 1.0)", "snr_shift_scale is no option"},
      {kCogVideoX, R"("snr_shift_scale": 0)", "snr_shift_scale"},
      {kDpm, R"("algorithm_type": "dpmsolver")", "algorithm_type must be one"},
      {kDpm, R"("solver_order": 4)", "solver_order"},
      {kDpm, R"("thresholding": true)", "thresholding"},
      {kDpm, R"("use_beta_sigmas": true)", "use_beta_sigmas"},
      {kDpm, R"("use_lu_lambdas": true)", "use_lu_lambdas"},
      {kDpm, R"("variance_type": "learned_range")", "variance_type"},
      {kDpm, R"("lambda_min_clipped": 1)", "lambda_min_clipped"},
      {kDpm, R"("prediction_type": "flow_prediction")", "use_flow_sigmas"},
      {kDpm, R"("use_flow_sigmas": true)", "flow_prediction"},
      {kDpm, absl::StrCat(kFlowSolver, R"(, "use_karras_sigmas": true)"),
       "use_karras_sigmas exclude"},
      {kDpm, R"("algorithm_type": "sde-dpmsolver++", "solver_order": 3)",
       "solver_order must be 1 or 2"},
      {kUniPc, R"("solver_p": {"_class_name": "DDIMScheduler"})", "solver_p"},
      {kUniPc, R"("solver_type": "bh3")", "solver_type"},
      {kUniPc, R"("disable_corrector": [0.5])", "disable_corrector"},
      {kUniPc, R"("disable_corrector": 1)", "disable_corrector"},
      {kUniPc, R"("shift_terminal": 0.1)", "shift_terminal needs"},
      {kUniPc, R"("predict_x0": false)", "final_sigmas_type"},
      {kUniPc, R"("lower_order_final": false)", "lower_order_final"},
      {kUniPc, absl::StrCat(kFlowSolver, R"(, "use_exponential_sigmas": true)"),
       "use_exponential_sigmas exclude"},
      {kUniPc, absl::StrCat(kFlowSolver, R"(, "predict_x0": false,
                                      "final_sigmas_type": "sigma_min")"),
       "predict_x0 must be true"},
  };
  for (const Refusal& refusal : refusals) {
    const std::string message = load_error(refusal.name, refusal.options);
    EXPECT_THAT(message, HasSubstr("scheduler_config.json: "));
    EXPECT_THAT(message, HasSubstr(refusal.told));
  }
}

TEST(NoiseSchedulerTest, ReadsWhatDiffusersWritesForRealModels) {
  const auto check = [](const char* name, const std::string& options) {
    const auto scheduler = load(name, options);
    EXPECT_TRUE(scheduler.ok()) << scheduler.status();
  };
  // Stable Diffusion XL, and what remains of an older class.
  check(kEuler, R"("_diffusers_version": "0.19.0.dev0", "beta_end": 0.012,
      "beta_start": 0.00085, "beta_schedule": "scaled_linear",
      "clip_sample": false, "sample_max_value": 1.0, "set_alpha_to_one": false,
      "skip_prk_steps": true, "steps_offset": 1, "interpolation_type": "linear",
      "timestep_spacing": "leading", "trained_betas": null)");
  // Stable Diffusion 3, Qwen-Image.
  check(kFlow, R"("shift_terminal": null, "shift": 3,
      "stochastic_sampling": false, "use_beta_sigmas": false)");
  // Stable Diffusion 1.5's PNDM, as a DDIM.
  check(kDdim, R"("beta_end": 0.012, "beta_schedule": "scaled_linear",
      "beta_start": 0.00085, "clip_sample": false, "num_train_timesteps": 1000,
      "set_alpha_to_one": false, "skip_prk_steps": true, "steps_offset": 1,
      "trained_betas": null)");
  // CogVideoX-2b.
  check(kCogVideoX, R"("beta_end": 0.012, "beta_schedule": "scaled_linear",
      "beta_start": 0.00085, "clip_sample": false, "clip_sample_range": 1.0,
      "num_train_timesteps": 1000, "prediction_type": "v_prediction",
      "rescale_betas_zero_snr": true, "sample_max_value": 1.0,
      "set_alpha_to_one": true, "snr_shift_scale": 3.0, "steps_offset": 0,
      "timestep_spacing": "trailing", "trained_betas": null)");
  // PixArt and Sana: Python's minus infinity.
  for (const std::string flow : {"", ", \"flow_shift\": 3.0, "}) {
    check(kDpm,
          absl::StrCat(R"("algorithm_type": "dpmsolver++", "beta_end": 0.02,
      "beta_schedule": "linear", "beta_start": 0.0001,
      "dynamic_thresholding_ratio": 0.995, "euler_at_final": false,
      "lambda_min_clipped": -Infinity, "lower_order_final": true,
      "num_train_timesteps": 1000, "sample_max_value": 1.0, "solver_order": 2,
      "solver_type": "midpoint", "steps_offset": 0, "thresholding": false,
      "timestep_spacing": "linspace", "trained_betas": null,
      "use_karras_sigmas": false, "use_lu_lambdas": false,
      "variance_type": null)",
                       flow, flow.empty() ? "" : kFlowSolver));
  }
  // Wan 2.1, 480p.
  check(kUniPc, absl::StrCat(R"("beta_end": 0.02, "beta_schedule": "linear",
      "beta_start": 0.0001, "disable_corrector": [],
      "dynamic_thresholding_ratio": 0.995, "final_sigmas_type": "zero",
      "flow_shift": 3.0, "lower_order_final": true,
      "num_train_timesteps": 1000, "predict_x0": true,
      "rescale_betas_zero_snr": false, "sample_max_value": 1.0,
      "solver_order": 2, "solver_p": null, "solver_type": "bh2",
      "steps_offset": 0, "thresholding": false,
      "timestep_spacing": "linspace", "trained_betas": null,
      "use_beta_sigmas": false, "use_exponential_sigmas": false,
      "use_karras_sigmas": false, )",
                             kFlowSolver));
}

TEST(SigmaGridsTest, LinspaceHitsBothEnds) {
  EXPECT_EQ(linspace(1, 3, 3), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(linspace(5, 0.1, 1), (std::vector<double>{5}));
  EXPECT_EQ(linspace(0, 0.3, 4).back(), 0.3);
}

// Every class by the rule of all: solvers look back at earlier steps.
TEST(NoiseSchedulerDeathTest, StepsAreThereAndInOrder) {
  const at::Tensor sample = at::tensor({1.0f, 2.0f}).unsqueeze(0);
  for (const char* name : kAll) {
    SCOPED_TRACE(name);
    const auto scheduler = load(name);
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    const auto schedule = *(*scheduler)->make_schedule(steps(2));
    NoiseSource noise(1, 1);
    EXPECT_DEATH((void)schedule->scale_model_input(sample, -1),
                 "i >= 0 \\(-1 and 0\\)");
    EXPECT_DEATH((void)schedule->scale_model_input(sample, 2),
                 "i < num_steps\\(\\) \\(2 and 2\\)");
    EXPECT_DEATH((void)schedule->step(sample, 1, sample, noise),
                 "i == steps_made_ \\(1 and 0\\)");
    EXPECT_DEATH((void)schedule->step(sample[0], 0, sample, noise),
                 "model_output.sizes\\(\\) == sample.sizes");
    for (const int i : {0, 1}) {
      (void)schedule->step(sample, i, sample, noise);
      EXPECT_DEATH((void)schedule->step(sample, i, sample, noise),
                   "i == steps_made_");
    }
    EXPECT_DEATH((void)schedule->step(sample, 2, sample, noise),
                 "i < num_steps\\(\\) \\(2 and 2\\)");
  }
}

TEST(NoiseSchedulerDeathTest, NumbersThatNoFileCanSay) {
  EXPECT_DEATH((void)linspace(0, 1, -1), "count >= 0 \\(-1 and 0\\)");
  EXPECT_DEATH(NoiseSource(1, 0), "pictures >= 1");
  NoiseSource noise(1, 2);
  EXPECT_DEATH((void)noise.draw({}), "!shape.empty");
  EXPECT_DEATH((void)noise.draw({3, 4}), "\\(3 and 2\\)");
  EXPECT_DEATH((void)make_grid(PipelineGrid::kLinearQuadratic, 1, 1000),
               "n >= min_grid_steps\\(grid\\) \\(1 and 2\\)");
  EXPECT_DEATH((void)make_grid(PipelineGrid::kUniform, 4, 0),
               "num_train_timesteps >= 1");
  const TimestepSpacing spacing;
  EXPECT_DEATH((void)spacing.timesteps(0), "n >= 1");
  EXPECT_DEATH((void)spacing.whole_timesteps(1001), "\\(1001 and 1000\\)");
  EXPECT_DEATH((void)spacing.multistep_timesteps(1000, 1000),
               "n < last_timestep");
  DynamicShift shift;
  EXPECT_DEATH((void)compute_mu({}, shift, -1, 4), "image_seq_len >= 0");
  shift.max_image_seq_len = shift.base_image_seq_len;
  EXPECT_DEATH((void)compute_mu({}, shift, 64, 4), "\\(256 and 256\\)");
}

// What a pipeline hands over comes from a file and a request.
TEST(NoiseSchedulerTest, TimestepsAreAsManyAsSigmas) {
  NoiseScheduleOptions request = sigmas({1.0, 0.5});
  request.timesteps = {1000, 500, 1};
  EXPECT_THAT(schedule_error(kFlow, "", request),
              HasSubstr("3 timesteps of a pipeline for 2 sigmas"));
  request.sigmas.clear();
  request.num_inference_steps = 3;
  EXPECT_THAT(schedule_error(kFlow, "", request), HasSubstr("for 0 sigmas"));
}

// Bounds that a file may say; whoever reads it does not compare them.
TEST(NoiseSchedulerTest, LevelsBetweenSwappedBoundsAreRefused) {
  for (const char* grid : {"use_karras_sigmas", "use_exponential_sigmas"}) {
    for (const char* name : {kEuler, kDpm, kUniPc}) {
      EXPECT_THAT(schedule_error(name,
                                 absl::StrCat("\"", grid,
                                              "\": true, \"sigma_min\": 80, "
                                              "\"sigma_max\": 0.5"),
                                 steps(5)),
                  HasSubstr("levels must be finite and fall"))
          << name << " " << grid;
    }
  }
}

}  // namespace
}  // namespace ferry
