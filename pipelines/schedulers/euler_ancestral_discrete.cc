#include "pipelines/schedulers/euler_ancestral_discrete.h"

#include <string>
#include <utility>
#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/ops/pow.h"
#include "ATen/ops/scalar_tensor.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pipelines/schedulers/beta_schedule.h"
#include "pipelines/schedulers/prediction.h"
#include "pipelines/schedulers/timestep_spacing.h"
#include "pipelines/schedulers/training_sigmas.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

class EulerAncestralSchedule : public NoiseSchedule {
 public:
  EulerAncestralSchedule(std::vector<float> timesteps,
                         std::vector<float> sigmas, float init_noise_sigma,
                         Prediction prediction)
      : NoiseSchedule(std::move(timesteps), std::move(sigmas),
                      init_noise_sigma),
        prediction_(prediction) {}

  at::Tensor scale(const at::Tensor& sample, int i) const override {
    return sample / at::pow(at::pow(sigma_at(i), 2) + 1, 0.5);
  }

  at::Tensor make_step(const at::Tensor& model_output, int i,
                       const at::Tensor& sample, NoiseSource& noise) override {
    const at::Tensor sigma = sigma_at(i);
    const at::Tensor squared = at::pow(sigma, 2);
    const at::Tensor to_squared = at::pow(sigma_at(i + 1), 2);
    const at::Tensor up =
        at::pow(to_squared * (squared - to_squared) / squared, 0.5);
    // Not less than nothing, which rounding could make it.
    const at::Tensor down =
        at::pow((to_squared - at::pow(up, 2)).clamp_min(0), 0.5);
    const at::Tensor latents = sample.to(at::kFloat);
    const at::Tensor image =
        prediction_ == Prediction::kEpsilon
            ? latents - sigma * model_output
            : model_output * (-sigma / at::pow(squared + 1, 0.5)) +
                  latents / (squared + 1);
    const at::Tensor derivative = (latents - image) / sigma;
    const at::Tensor next = latents + derivative * (down - sigma);
    const at::Tensor added = noise.draw(latents.sizes()).to(latents.device());
    return (next + added * up).to(model_output.scalar_type());
  }

 private:
  // Without dimensions, so that products keep the other factor's dtype.
  at::Tensor sigma_at(int i) const {
    return at::scalar_tensor(sigmas()[i], at::kFloat);
  }

  const Prediction prediction_;
};

class EulerAncestralDiscrete : public NoiseScheduler {
 public:
  EulerAncestralDiscrete(const BetaSchedule& betas,
                         const TimestepSpacing& spacing, Prediction prediction)
      : spacing_(spacing), prediction_(prediction), training_(betas) {}

  std::string name() const override { return "EulerAncestralDiscrete"; }
  Prediction prediction() const override { return prediction_; }
  StepRange step_range() const override {
    return {1, static_cast<int>(spacing_.num_train_timesteps)};
  }

  absl::StatusOr<std::unique_ptr<NoiseSchedule>> compute_schedule(
      const NoiseScheduleOptions& request) const override {
    const int n = request.num_inference_steps;
    if (!request.sigmas.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name(), " takes no custom sigmas"));
    }
    if (n < 1 || n > step_range().max) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_inference_steps is ", n, "; ", name(),
                       " makes 1 to ", step_range().max));
    }
    const std::vector<double> timesteps = spacing_.timesteps(n);
    std::vector<float> sigmas;
    sigmas.reserve(timesteps.size() + 1);
    for (double timestep : timesteps) {
      sigmas.push_back(static_cast<float>(training_.interpolate(timestep)));
    }
    sigmas.push_back(0.0f);
    const at::Tensor max = at::scalar_tensor(sigmas.front(), at::kFloat);
    const float init_noise_sigma =
        spacing_.kind == TimestepSpacing::Kind::kLeading
            ? at::pow(at::pow(max, 2) + 1, 0.5).item<float>()
            : sigmas.front();
    return std::make_unique<EulerAncestralSchedule>(
        std::vector<float>(timesteps.begin(), timesteps.end()),
        std::move(sigmas), init_noise_sigma, prediction_);
  }

 private:
  const TimestepSpacing spacing_;
  const Prediction prediction_;
  const TrainingSigmas training_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<NoiseScheduler>> make_euler_ancestral_discrete(
    SchedulerConfig config) {
  const BetaSchedule betas = read_beta_schedule(config);
  const TimestepSpacing spacing =
      read_timestep_spacing(config, "linspace", betas.num_train_timesteps);
  const Prediction prediction =
      read_prediction(config, {Prediction::kEpsilon, Prediction::kVelocity});
  config.ignore_compatible_options();
  RETURN_IF_ERROR(config.finish());
  return std::make_unique<EulerAncestralDiscrete>(betas, spacing, prediction);
}

}  // namespace ferry
