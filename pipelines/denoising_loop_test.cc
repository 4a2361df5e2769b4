#include "pipelines/denoising_loop.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "pipelines/schedulers/load_noise_scheduler.h"
#include "pipelines/schedulers/noise_scheduler.h"
#include "pipelines/schedulers/noise_source.h"
#include "pipelines/testing/tiny_pipeline.h"
#include "pipelines/testing/tiny_pipeline_options.h"
#include "pipelines/torchscript/root_module.h"
#include "pipelines/torchscript/torch_settings.h"

namespace ferry {
namespace {

constexpr int kSteps = 6;

class DenoisingLoopTest : public testing::Test {
 protected:
  DenoisingLoopTest() : scope_(1) {
    set_deterministic_mode();
    const auto directory = std::filesystem::path(testing::TempDir()) / "loop";
    EXPECT_TRUE(write_tiny_pipeline(directory, {}).ok());
    RootModule::Options options;
    options.attention_masks = {false};
    root_ = *RootModule::load(directory, "pipeline.pt", options);
    scheduler_ =
        *load_noise_scheduler(directory / "scheduler/scheduler_config.json");
  }

  std::unique_ptr<NoiseSchedule> make_schedule() const {
    NoiseScheduleOptions options;
    options.num_inference_steps = kSteps;
    return *scheduler_->make_schedule(options);
  }

  // Conditioning of prompts that consist of one token each.
  Conditioning encode(const std::vector<int64_t>& tokens) {
    const auto rows = static_cast<int64_t>(tokens.size());
    return *root_->encode_prompt(
        {at::tensor(tokens).reshape({rows, 1}).repeat({1, 16})});
  }

  TorchScope scope_;
  std::unique_ptr<RootModule> root_;
  std::unique_ptr<NoiseScheduler> scheduler_;
  const std::vector<int64_t> shape_ = {2, 4, 4, 4};
  NoiseSource noise_{3, 2};
  // What noise_ gives first.
  const at::Tensor initial_ = NoiseSource(3, 2).draw(shape_);
};

absl::Status ignore_step(int, const at::Tensor&) { return absl::OkStatus(); }

TEST_F(DenoisingLoopTest, OneGuidedPassEqualsTwo) {
  constexpr double kScale = 4;
  const auto batched =
      run_denoising_loop(*root_, {shape_, encode({5, 5, 9, 11}), true, kScale},
                         *make_schedule(), noise_, ignore_step);
  ASSERT_TRUE(batched.ok()) << batched.status();

  const Conditioning negative = encode({5, 5});
  const Conditioning positive = encode({9, 11});
  const auto schedule = make_schedule();
  at::Tensor latents = initial_ * schedule->init_noise_sigma();
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor input = schedule->scale_model_input(latents, step);
    const at::Tensor timestep = at::full({2}, schedule->timesteps()[step]);
    const at::Tensor without = *root_->denoise(input, timestep, negative);
    const at::Tensor with = *root_->denoise(input, timestep, positive);
    latents = schedule->step(without + kScale * (with - without), step, latents,
                             noise_);
  }
  EXPECT_TRUE(batched->allclose(latents, 1e-4, 1e-5));
  EXPECT_FALSE(batched->allclose(initial_, 1e-2, 1e-2));
}

TEST_F(DenoisingLoopTest, ShowsTheLatentsBeforeEachStepAndAtTheEnd) {
  std::vector<int> steps;
  std::vector<at::Tensor> seen;
  const auto schedule = make_schedule();
  const auto latents =
      run_denoising_loop(*root_, {shape_, encode({7, 8}), false, 1}, *schedule,
                         noise_, [&](int step, const at::Tensor& tensor) {
                           steps.push_back(step);
                           seen.push_back(tensor);
                           return absl::OkStatus();
                         });
  ASSERT_TRUE(latents.ok()) << latents.status();
  EXPECT_EQ(steps, (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(seen.front().equal(initial_ * schedule->init_noise_sigma()));
  EXPECT_TRUE(seen.back().equal(*latents));
  EXPECT_EQ(latents->scalar_type(), at::kFloat);
}

TEST_F(DenoisingLoopTest, ACallbacksErrorEndsIt) {
  int calls = 0;
  const auto latents = run_denoising_loop(
      *root_, {shape_, encode({7, 8}), false, 1}, *make_schedule(), noise_,
      [&](int step, const at::Tensor&) {
        ++calls;
        return step == 3 ? absl::CancelledError("enough") : absl::OkStatus();
      });
  EXPECT_EQ(latents.status(), absl::CancelledError("enough"));
  EXPECT_EQ(calls, 4);
}

}  // namespace
}  // namespace ferry
