#include "pipelines/schedulers/multistep.h"

#include <cmath>

#include "ATen/TensorOperators.h"
#include "ATen/ops/pow.h"
#include "ATen/ops/scalar_tensor.h"
#include "absl/strings/str_cat.h"
#include "pipelines/schedulers/sigma_grids.h"
#include "platform/base/check.h"

namespace ferry {
namespace {

void check_grid_options(const MultistepOptions& options,
                        SchedulerConfig* config) {
  if (options.use_karras_sigmas && options.use_exponential_sigmas) {
    config->add_error("use_karras_sigmas",
                      "and use_exponential_sigmas exclude each other");
  }
  if (options.use_flow_sigmas && options.use_exponential_sigmas) {
    config->add_error("use_flow_sigmas",
                      "and use_exponential_sigmas exclude each other");
  }
  const bool predicts_flow = options.prediction == Prediction::kFlow;
  if (options.use_flow_sigmas && !predicts_flow) {
    config->add_error("use_flow_sigmas",
                      "needs prediction_type flow_prediction");
  }
  if (!options.use_flow_sigmas && predicts_flow) {
    config->add_error("prediction_type",
                      "flow_prediction needs use_flow_sigmas");
  }
}

}  // namespace

MultistepOptions read_multistep_options(SchedulerConfig& config) {
  MultistepOptions options;
  options.betas = read_beta_schedule(config);
  options.solver_order = static_cast<int>(
      config.get_int("solver_order", options.solver_order, 1, 3));
  options.prediction =
      read_prediction(config, {Prediction::kEpsilon, Prediction::kSample,
                               Prediction::kVelocity, Prediction::kFlow});
  options.lower_order_final = config.get_bool("lower_order_final", true);
  options.spacing = read_timestep_spacing(config, "linspace",
                                          options.betas.num_train_timesteps);
  options.use_karras_sigmas = config.get_bool("use_karras_sigmas", false);
  options.use_exponential_sigmas =
      config.get_bool("use_exponential_sigmas", false);
  options.use_flow_sigmas = config.get_bool("use_flow_sigmas", false);
  options.flow_shift = read_dynamic_shift(config);
  options.flow_shift.shift = config.get_double("flow_shift", 1.0, 1e-3, 1e3);
  config.get_choice("time_shift_type", "exponential", {"exponential"});
  options.final_sigma_is_min =
      config.get_choice("final_sigmas_type", "zero", {"zero", "sigma_min"}) ==
      "sigma_min";
  options.sigma_min = config.get_optional_double("sigma_min", 1e-6, 1e6);
  options.sigma_max = config.get_optional_double("sigma_max", 1e-6, 1e6);
  config.refuse("use_beta_sigmas");
  config.refuse("thresholding");
  check_grid_options(options, &config);
  return options;
}

std::vector<float> MultistepGrid::model_timesteps() const {
  std::vector<float> result;
  result.reserve(timesteps.size());
  for (double timestep : timesteps) {
    result.push_back(static_cast<float>(std::trunc(timestep)));
  }
  return result;
}

std::vector<float> MultistepGrid::levels() const {
  return {sigmas.begin(), sigmas.end()};
}

MultistepGrid spaced_grid(const MultistepOptions& options,
                          const TrainingSigmas& training, int n) {
  FERRY_CHECK(options.use_karras_sigmas || options.use_exponential_sigmas);
  const double min = options.sigma_min.value_or(training.min());
  const double max = options.sigma_max.value_or(training.max());
  MultistepGrid grid;
  grid.sigmas = options.use_karras_sigmas ? karras_sigmas(min, max, n)
                                          : exponential_sigmas(min, max, n);
  for (double sigma : grid.sigmas) {
    grid.timesteps.push_back(training.to_timestep(sigma));
  }
  return grid;
}

absl::Status check_flow_levels(absl::string_view scheduler,
                               const MultistepOptions& options,
                               const std::vector<float>& levels) {
  if (!options.use_flow_sigmas) return absl::OkStatus();
  for (size_t i = 0; i < levels.size(); ++i) {
    if (levels[i] < 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(scheduler, " would have the noise level ", levels[i],
                     " at step ", i + 1, "; it must be less than 1"));
  }
  return absl::OkStatus();
}

SolverLevel::SolverLevel(float level, bool is_flow) {
  const at::Tensor given = at::scalar_tensor(level, at::kFloat);
  if (is_flow) {
    alpha = 1 - given;
    sigma = given;
  } else {
    alpha = 1 / at::pow(at::pow(given, 2) + 1, 0.5);
    sigma = given * alpha;
  }
  lambda = alpha.log() - sigma.log();
}

at::Tensor predict_image(const MultistepOptions& options,
                         const SolverLevel& level, const at::Tensor& output,
                         const at::Tensor& sample) {
  switch (options.prediction) {
    case Prediction::kEpsilon:
      return (sample - level.sigma * output) / level.alpha;
    case Prediction::kVelocity:
      return level.alpha * sample - level.sigma * output;
    case Prediction::kFlow:
      return sample - level.sigma * output;
    case Prediction::kSample:
      break;
  }
  return output;
}

at::Tensor predict_noise(const MultistepOptions& options,
                         const SolverLevel& level, const at::Tensor& output,
                         const at::Tensor& sample) {
  switch (options.prediction) {
    case Prediction::kSample:
      return (sample - level.alpha * output) / level.sigma;
    case Prediction::kVelocity:
      return level.alpha * output + level.sigma * sample;
    case Prediction::kFlow:
    case Prediction::kEpsilon:
      break;
  }
  return output;
}

}  // namespace ferry
