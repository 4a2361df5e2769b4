#include "pipelines/schedulers/euler_discrete.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/ops/linspace.h"
#include "ATen/ops/pow.h"
#include "ATen/ops/scalar_tensor.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pipelines/schedulers/beta_schedule.h"
#include "pipelines/schedulers/prediction.h"
#include "pipelines/schedulers/sigma_grids.h"
#include "pipelines/schedulers/timestep_spacing.h"
#include "pipelines/schedulers/training_sigmas.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

struct EulerOptions {
  BetaSchedule betas;
  Prediction prediction = Prediction::kEpsilon;
  TimestepSpacing spacing;
  bool continuous_timesteps = false;
  bool log_linear_interpolation = false;
  bool use_karras_sigmas = false;
  bool use_exponential_sigmas = false;
  bool final_sigma_is_min = false;
  // Ends of the Karras and exponential grids.
  std::optional<double> sigma_min;
  std::optional<double> sigma_max;
};

class EulerSchedule : public NoiseSchedule {
 public:
  EulerSchedule(std::vector<float> timesteps, std::vector<float> sigmas,
                float init_noise_sigma, Prediction prediction)
      : NoiseSchedule(std::move(timesteps), std::move(sigmas),
                      init_noise_sigma),
        prediction_(prediction) {}

  at::Tensor scale(const at::Tensor& sample, int i) const override {
    return sample / at::pow(at::pow(sigma_at(i), 2) + 1, 0.5);
  }

  at::Tensor make_step(const at::Tensor& model_output, int i,
                       const at::Tensor& sample, NoiseSource&) override {
    const at::Tensor sigma = sigma_at(i);
    const at::Tensor latents = sample.to(at::kFloat);
    const at::Tensor denoised = denoise(model_output, sigma, latents);
    const at::Tensor derivative = (latents - denoised) / sigma;
    const at::Tensor next = latents + derivative * (sigma_at(i + 1) - sigma);
    return next.to(model_output.scalar_type());
  }

 private:
  // Without dimensions, so that products keep the other factor's dtype.
  at::Tensor sigma_at(int i) const {
    return at::scalar_tensor(sigmas()[i], at::kFloat);
  }

  at::Tensor denoise(const at::Tensor& model_output, const at::Tensor& sigma,
                     const at::Tensor& latents) const {
    switch (prediction_) {
      case Prediction::kEpsilon:
        return latents - sigma * model_output;
      case Prediction::kVelocity: {
        const at::Tensor variance = at::pow(sigma, 2) + 1;
        return model_output * (-sigma / at::pow(variance, 0.5)) +
               latents / variance;
      }
      default:
        return model_output;
    }
  }

  const Prediction prediction_;
};

// Levels before each step, and what the model is told of them.
struct Grid {
  std::vector<double> sigmas;
  std::vector<double> timesteps;
};

class EulerDiscrete : public NoiseScheduler {
 public:
  explicit EulerDiscrete(EulerOptions options)
      : options_(std::move(options)), training_(options_.betas) {}

  std::string name() const override { return "EulerDiscrete"; }
  Prediction prediction() const override { return options_.prediction; }
  CustomSigmas custom_sigmas() const override {
    return CustomSigmas::kWithLast;
  }
  StepRange step_range() const override {
    return {1, static_cast<int>(options_.betas.num_train_timesteps)};
  }

  absl::StatusOr<std::unique_ptr<NoiseSchedule>> compute_schedule(
      const NoiseScheduleOptions& request) const override {
    Grid grid;
    if (!request.sigmas.empty()) {
      if (request.sigmas.size() < 2) {
        return absl::InvalidArgumentError(
            "sigmas of EulerDiscrete need the level after the last step too");
      }
      grid = custom_grid(request.sigmas);
    } else {
      const int n = request.num_inference_steps;
      if (n < 1 || n > options_.betas.num_train_timesteps) {
        return absl::InvalidArgumentError(
            absl::StrCat("num_inference_steps is ", n, "; EulerDiscrete makes ",
                         "1 to ", options_.betas.num_train_timesteps));
      }
      grid = own_grid(n);
    }
    std::vector<float> sigmas(grid.sigmas.begin(), grid.sigmas.end());
    return std::make_unique<EulerSchedule>(model_timesteps(grid, sigmas),
                                           sigmas, init_noise_sigma(sigmas),
                                           options_.prediction);
  }

 private:
  Grid own_grid(int n) const {
    Grid grid;
    grid.timesteps = options_.spacing.timesteps(n);
    if (options_.log_linear_interpolation) {
      const at::Tensor levels =
          at::linspace(training_.log_max(), training_.log_min(), n + 1,
                       at::kFloat)
              .exp();
      const float* data = levels.const_data_ptr<float>();
      grid.sigmas.assign(data, data + levels.numel());
    } else {
      for (double timestep : grid.timesteps) {
        grid.sigmas.push_back(training_.interpolate(timestep));
      }
    }
    if (options_.use_karras_sigmas || options_.use_exponential_sigmas) {
      const double min = options_.sigma_min.value_or(grid.sigmas.back());
      const double max = options_.sigma_max.value_or(grid.sigmas.front());
      grid.sigmas = options_.use_karras_sigmas
                        ? karras_sigmas(min, max, n)
                        : exponential_sigmas(min, max, n);
      for (int i = 0; i < n; ++i) {
        grid.timesteps[i] = training_.to_timestep(grid.sigmas[i]);
      }
    }
    grid.sigmas.push_back(options_.final_sigma_is_min ? training_.min() : 0.0);
    // The log-linear grid has a level too many, which takes the last place.
    grid.sigmas.resize(static_cast<size_t>(n) + 1);
    return grid;
  }

  Grid custom_grid(const std::vector<double>& sigmas) const {
    Grid grid;
    for (double sigma : sigmas) {
      grid.sigmas.push_back(static_cast<float>(sigma));
    }
    for (size_t i = 0; i + 1 < sigmas.size(); ++i) {
      grid.timesteps.push_back(training_.to_timestep(grid.sigmas[i]));
    }
    return grid;
  }

  std::vector<float> model_timesteps(const Grid& grid,
                                     const std::vector<float>& sigmas) const {
    std::vector<float> timesteps(grid.timesteps.begin(), grid.timesteps.end());
    if (!options_.continuous_timesteps ||
        options_.prediction != Prediction::kVelocity) {
      return timesteps;
    }
    for (size_t i = 0; i < timesteps.size(); ++i) {
      timesteps[i] = 0.25f * std::log(sigmas[i]);
    }
    return timesteps;
  }

  float init_noise_sigma(const std::vector<float>& sigmas) const {
    const float max = *std::max_element(sigmas.begin(), sigmas.end());
    if (options_.spacing.kind != TimestepSpacing::Kind::kLeading) return max;
    return std::sqrt(max * max + 1);
  }

  const EulerOptions options_;
  const TrainingSigmas training_;
};

EulerOptions read_options(SchedulerConfig& config) {
  EulerOptions options;
  options.betas = read_beta_schedule(config);
  options.prediction = read_prediction(
      config,
      {Prediction::kEpsilon, Prediction::kVelocity, Prediction::kSample});
  options.spacing = read_timestep_spacing(config, "linspace",
                                          options.betas.num_train_timesteps);
  options.continuous_timesteps =
      config.get_choice("timestep_type", "discrete",
                        {"discrete", "continuous"}) == "continuous";
  options.log_linear_interpolation =
      config.get_choice("interpolation_type", "linear",
                        {"linear", "log_linear"}) == "log_linear";
  options.use_karras_sigmas = config.get_bool("use_karras_sigmas", false);
  options.use_exponential_sigmas =
      config.get_bool("use_exponential_sigmas", false);
  options.final_sigma_is_min =
      config.get_choice("final_sigmas_type", "zero", {"zero", "sigma_min"}) ==
      "sigma_min";
  options.sigma_min = config.get_optional_double("sigma_min", 1e-10, 1e6);
  options.sigma_max = config.get_optional_double("sigma_max", 1e-10, 1e6);
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NoiseScheduler>> make_euler_discrete(
    SchedulerConfig config) {
  EulerOptions options = read_options(config);
  if (options.use_karras_sigmas && options.use_exponential_sigmas) {
    config.add_error("use_karras_sigmas",
                     "and use_exponential_sigmas exclude each other");
  }
  config.refuse("use_beta_sigmas");
  config.ignore_compatible_options();
  RETURN_IF_ERROR(config.finish());
  return std::make_unique<EulerDiscrete>(std::move(options));
}

}  // namespace ferry
