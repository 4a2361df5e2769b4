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
#include "pipelines/schedulers/sigma_grids.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

enum class Prediction { kEpsilon, kVelocity, kSample };

struct EulerOptions {
  BetaSchedule betas;
  Prediction prediction = Prediction::kEpsilon;
  std::string timestep_spacing = "linspace";
  int64_t steps_offset = 0;
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

  at::Tensor scale_model_input(const at::Tensor& sample, int i) const override {
    return sample / at::pow(at::pow(sigma_at(i), 2) + 1, 0.5);
  }

  at::Tensor step(const at::Tensor& model_output, int i,
                  const at::Tensor& sample) override {
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
      case Prediction::kSample:
        break;
    }
    return model_output;
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
  explicit EulerDiscrete(EulerOptions options) : options_(std::move(options)) {
    const at::Tensor product = compute_alphas_cumprod(options_.betas);
    const at::Tensor sigmas = at::pow((1 - product) / product, 0.5);
    const at::Tensor logs = sigmas.log();
    train_sigmas_.assign(sigmas.const_data_ptr<float>(),
                         sigmas.const_data_ptr<float>() + sigmas.numel());
    log_sigmas_.assign(logs.const_data_ptr<float>(),
                       logs.const_data_ptr<float>() + logs.numel());
  }

  std::string name() const override { return "EulerDiscrete"; }
  bool needs_image_seq_len() const override { return false; }
  StepRange step_range() const override {
    return {1, static_cast<int>(options_.betas.num_train_timesteps)};
  }

  absl::StatusOr<std::unique_ptr<NoiseSchedule>> make_schedule(
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
    for (size_t i = 0; i < sigmas.size(); ++i) {
      const bool is_last = i + 1 == sigmas.size();
      if (std::isfinite(sigmas[i]) && sigmas[i] >= 0 &&
          (is_last || sigmas[i] > 0)) {
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat("EulerDiscrete has the noise level ", sigmas[i],
                       " at step ", i, "; it must be positive and finite"));
    }
    return std::make_unique<EulerSchedule>(model_timesteps(grid, sigmas),
                                           sigmas, init_noise_sigma(sigmas),
                                           options_.prediction);
  }

 private:
  // The timesteps that diffusers calls linspace, leading and trailing.
  std::vector<double> spaced_timesteps(int n) const {
    const int64_t train_steps = options_.betas.num_train_timesteps;
    std::vector<double> timesteps(n);
    if (options_.timestep_spacing == "linspace") {
      timesteps = linspace(0, static_cast<double>(train_steps - 1), n);
      std::reverse(timesteps.begin(), timesteps.end());
    } else if (options_.timestep_spacing == "leading") {
      const int64_t ratio = train_steps / n;
      for (int i = 0; i < n; ++i) {
        timesteps[i] =
            static_cast<double>((n - 1 - i) * ratio + options_.steps_offset);
      }
    } else {
      const double start = static_cast<double>(train_steps);
      // NumPy's arange steps by the rounded difference of its first two. For
      // some n (61 is one) it makes a step too many, which is left out here.
      const double step = (start - start / n) - start;
      for (int i = 0; i < n; ++i) {
        timesteps[i] = std::nearbyint(start + i * step) - 1;
      }
    }
    for (double& timestep : timesteps) {
      timestep = static_cast<float>(timestep);
    }
    return timesteps;
  }

  Grid own_grid(int n) const {
    Grid grid;
    grid.timesteps = spaced_timesteps(n);
    if (options_.log_linear_interpolation) {
      const at::Tensor levels =
          at::linspace(log_sigmas_.back(), log_sigmas_.front(), n + 1,
                       at::kFloat)
              .exp();
      const float* data = levels.const_data_ptr<float>();
      grid.sigmas.assign(data, data + levels.numel());
    } else {
      for (double timestep : grid.timesteps) {
        grid.sigmas.push_back(interpolate_sigma(timestep));
      }
    }
    if (options_.use_karras_sigmas || options_.use_exponential_sigmas) {
      const double min = options_.sigma_min.value_or(grid.sigmas.back());
      const double max = options_.sigma_max.value_or(grid.sigmas.front());
      grid.sigmas = options_.use_karras_sigmas
                        ? karras_sigmas(min, max, n)
                        : exponential_sigmas(min, max, n);
      for (int i = 0; i < n; ++i) {
        grid.timesteps[i] = sigma_to_timestep(grid.sigmas[i]);
      }
    }
    grid.sigmas.push_back(options_.final_sigma_is_min ? train_sigmas_.front()
                                                      : 0.0);
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
      grid.timesteps.push_back(sigma_to_timestep(grid.sigmas[i]));
    }
    return grid;
  }

  // NumPy's interp of the training sigmas.
  double interpolate_sigma(double timestep) const {
    const double last = static_cast<double>(train_sigmas_.size() - 1);
    const double clamped = std::clamp(timestep, 0.0, last);
    const size_t low = static_cast<size_t>(clamped);
    const double fraction = clamped - static_cast<double>(low);
    if (fraction == 0) return train_sigmas_[low];
    const double slope =
        static_cast<double>(train_sigmas_[low + 1]) - train_sigmas_[low];
    return slope * fraction + train_sigmas_[low];
  }

  // The training timestep of a level, interpolated in log(sigma).
  double sigma_to_timestep(double sigma) const {
    const double log_sigma = std::log(std::max(sigma, 1e-10));
    // The last training level that is no higher, but never the very last.
    size_t low = 0;
    for (size_t i = 0; i + 1 < log_sigmas_.size(); ++i) {
      if (log_sigma >= log_sigmas_[i]) low = i;
    }
    const double gap = log_sigmas_[low] - log_sigmas_[low + 1];
    const double weight =
        std::clamp((log_sigmas_[low] - log_sigma) / gap, 0.0, 1.0);
    return (1 - weight) * static_cast<double>(low) +
           weight * static_cast<double>(low + 1);
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
    if (options_.timestep_spacing != "leading") return max;
    return std::sqrt(max * max + 1);
  }

  const EulerOptions options_;
  // Noise level of each training timestep, and its logarithm; float32 values.
  std::vector<float> train_sigmas_;
  std::vector<float> log_sigmas_;
};

BetaSchedule read_betas(SchedulerConfig& config) {
  BetaSchedule betas;
  betas.num_train_timesteps =
      config.get_int("num_train_timesteps", 1000, 2, 1000000);
  betas.beta_start = config.get_double("beta_start", 0.0001, 0, 0.999);
  betas.beta_end = config.get_double("beta_end", 0.02, 0, 0.999);
  betas.kind =
      config.get_choice("beta_schedule", "linear",
                        {"linear", "scaled_linear", "squaredcos_cap_v2"});
  betas.rescale_zero_snr = config.get_bool("rescale_betas_zero_snr", false);
  return betas;
}

EulerOptions read_options(SchedulerConfig& config) {
  EulerOptions options;
  options.betas = read_betas(config);
  const std::string prediction = config.get_choice(
      "prediction_type", "epsilon",
      {"epsilon", "v_prediction", "sample", "original_sample"});
  options.prediction = prediction == "epsilon"        ? Prediction::kEpsilon
                       : prediction == "v_prediction" ? Prediction::kVelocity
                                                      : Prediction::kSample;
  options.timestep_spacing = config.get_choice(
      "timestep_spacing", "linspace", {"linspace", "leading", "trailing"});
  options.steps_offset = config.get_int("steps_offset", 0, 0, 1000000);
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
  config.refuse("trained_betas");
  config.refuse("use_beta_sigmas");
  // Options of the other samplers for the same models; EulerDiscrete has no
  // use for them, and diffusers drops them too.
  for (const char* key :
       {"clip_sample", "clip_sample_range", "sample_max_value",
        "set_alpha_to_one", "skip_prk_steps", "thresholding",
        "dynamic_thresholding_ratio"}) {
    config.ignore(key);
  }
  RETURN_IF_ERROR(config.finish());
  return std::make_unique<EulerDiscrete>(std::move(options));
}

}  // namespace ferry
