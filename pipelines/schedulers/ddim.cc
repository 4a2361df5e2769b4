#include "pipelines/schedulers/ddim.h"

#include <cmath>
#include <optional>
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
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// In which order diffusers' two classes compute a step.
enum class DdimForm { kPlain, kCogVideoX };

struct DdimOptions {
  DdimForm form = DdimForm::kPlain;
  Prediction prediction = Prediction::kEpsilon;
  TimestepSpacing spacing;
  // After the last step the image has no noise; else that of timestep 0.
  bool set_alpha_to_one = true;
  // Predicted images are clamped to minus this and this.
  std::optional<double> clip_range;
};

at::Tensor root(const at::Tensor& value) { return at::pow(value, 0.5); }

// One step's alphas_cumprod, without dimensions. `after` is a fixed number of
// training timesteps later, which is not always where the next step starts.
struct DdimStep {
  at::Tensor before;
  at::Tensor after;
};

class DdimSchedule : public NoiseSchedule {
 public:
  DdimSchedule(std::vector<float> timesteps, std::vector<float> sigmas,
               std::vector<DdimStep> steps, const DdimOptions& options)
      : NoiseSchedule(std::move(timesteps), std::move(sigmas),
                      /*init_noise_sigma=*/1.0f),
        steps_(std::move(steps)),
        options_(options) {}

  at::Tensor make_step(const at::Tensor& model_output, int i,
                       const at::Tensor& sample, NoiseSource&) override {
    const at::Tensor latents = sample.to(at::kFloat);
    const at::Tensor output = model_output.to(at::kFloat);
    const at::Tensor& alpha = steps_[i].before;
    const at::Tensor& next_alpha = steps_[i].after;
    const at::Tensor image = predict_image(output, alpha, latents);
    at::Tensor next;
    if (options_.form == DdimForm::kCogVideoX) {
      const at::Tensor keep = root((1 - next_alpha) / (1 - alpha));
      next = keep * latents + (root(next_alpha) - root(alpha) * keep) * image;
    } else {
      const at::Tensor noise = predict_noise(output, alpha, latents);
      const at::Tensor shown =
          options_.clip_range.has_value()
              ? image.clamp(-*options_.clip_range, *options_.clip_range)
              : image;
      next = root(next_alpha) * shown + root(1 - next_alpha) * noise;
    }
    return next.to(model_output.scalar_type());
  }

 private:
  at::Tensor predict_image(const at::Tensor& output, const at::Tensor& alpha,
                           const at::Tensor& latents) const {
    switch (options_.prediction) {
      case Prediction::kEpsilon:
        return (latents - root(1 - alpha) * output) / root(alpha);
      case Prediction::kVelocity:
        return root(alpha) * latents - root(1 - alpha) * output;
      default:
        return output;
    }
  }

  at::Tensor predict_noise(const at::Tensor& output, const at::Tensor& alpha,
                           const at::Tensor& latents) const {
    switch (options_.prediction) {
      case Prediction::kSample:
        return (latents - root(alpha) * output) / root(1 - alpha);
      case Prediction::kVelocity:
        return root(alpha) * output + root(1 - alpha) * latents;
      default:
        return output;
    }
  }

  const std::vector<DdimStep> steps_;
  const DdimOptions options_;
};

class Ddim : public NoiseScheduler {
 public:
  // `alphas_cumprod`: [num_train_timesteps], float32 or float64.
  Ddim(at::Tensor alphas_cumprod, const DdimOptions& options)
      : alphas_cumprod_(std::move(alphas_cumprod)), options_(options) {}

  std::string name() const override {
    return options_.form == DdimForm::kPlain ? "DDIM" : "CogVideoXDDIM";
  }
  Prediction prediction() const override { return options_.prediction; }
  StepRange step_range() const override {
    return {1, static_cast<int>(options_.spacing.num_train_timesteps)};
  }

  absl::StatusOr<std::unique_ptr<NoiseSchedule>> compute_schedule(
      const NoiseScheduleOptions& request) const override {
    const int64_t train_steps = options_.spacing.num_train_timesteps;
    const int n = request.num_inference_steps;
    if (!request.sigmas.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name(), " takes no custom sigmas"));
    }
    if (n < 1 || n > train_steps) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_inference_steps is ", n, "; ", name(),
                       " makes 1 to ", train_steps));
    }
    std::vector<float> timesteps;
    std::vector<DdimStep> steps;
    for (double timestep : options_.spacing.whole_timesteps(n)) {
      const int64_t t = static_cast<int64_t>(timestep);
      if (t >= train_steps) {
        return absl::InvalidArgumentError(
            absl::StrCat(name(), " has no timestep ", t,
                         ", which steps_offset leads to; ask for fewer steps"));
      }
      timesteps.push_back(static_cast<float>(timestep));
      steps.push_back({alphas_cumprod_[t], alpha_at(t - train_steps / n)});
      if (options_.prediction == Prediction::kEpsilon &&
          steps.back().before.item<double>() <= 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            name(),
            " cannot start from pure noise, which "
            "rescale_betas_zero_snr leads to, with prediction_type "
            "epsilon"));
      }
    }
    std::vector<float> sigmas;
    sigmas.reserve(steps.size() + 1);
    for (const DdimStep& step : steps) sigmas.push_back(sigma_of(step.before));
    sigmas.push_back(sigma_of(steps.back().after));
    return std::make_unique<DdimSchedule>(
        std::move(timesteps), std::move(sigmas), std::move(steps), options_);
  }

 private:
  at::Tensor alpha_at(int64_t timestep) const {
    if (timestep >= 0) return alphas_cumprod_[timestep];
    return options_.set_alpha_to_one ? at::scalar_tensor(1.0, at::kFloat)
                                     : alphas_cumprod_[0];
  }

  static float sigma_of(const at::Tensor& alpha) {
    const double value = alpha.item<double>();
    return static_cast<float>(std::sqrt((1 - value) / value));
  }

  const at::Tensor alphas_cumprod_;
  const DdimOptions options_;
};

DdimOptions read_options(SchedulerConfig& config, const BetaSchedule& betas) {
  DdimOptions options;
  options.prediction = read_prediction(
      config,
      {Prediction::kEpsilon, Prediction::kSample, Prediction::kVelocity});
  options.spacing =
      read_timestep_spacing(config, "leading", betas.num_train_timesteps);
  options.set_alpha_to_one = config.get_bool("set_alpha_to_one", true);
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NoiseScheduler>> make_ddim(
    SchedulerConfig config) {
  const BetaSchedule betas = read_beta_schedule(config);
  DdimOptions options = read_options(config, betas);
  const double clip_range =
      config.get_double("clip_sample_range", 1.0, 1e-6, 1e6);
  if (config.get_bool("clip_sample", true)) options.clip_range = clip_range;
  config.refuse("thresholding");
  config.ignore_compatible_options();
  RETURN_IF_ERROR(config.finish());
  return std::make_unique<Ddim>(compute_alphas_cumprod(betas), options);
}

absl::StatusOr<std::unique_ptr<NoiseScheduler>> make_cogvideox_ddim(
    SchedulerConfig config) {
  BetaSchedule defaults;
  defaults.beta_start = 0.00085;
  defaults.beta_end = 0.012;
  defaults.kind = "scaled_linear";
  const BetaSchedule betas = read_beta_schedule(config, defaults);
  DdimOptions options = read_options(config, betas);
  options.form = DdimForm::kCogVideoX;
  const double scale = config.get_double("snr_shift_scale", 3.0, 1e-3, 1e3);
  config.ignore_compatible_options();
  RETURN_IF_ERROR(config.finish());
  return std::make_unique<Ddim>(compute_cogvideox_alphas_cumprod(betas, scale),
                                options);
}

}  // namespace ferry
