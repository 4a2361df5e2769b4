#include "pipelines/schedulers/flow_match_euler_discrete.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/ops/scalar_tensor.h"
#include "absl/status/status.h"
#include "pipelines/schedulers/flow_shift.h"
#include "pipelines/schedulers/sigma_grids.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

struct FlowMatchOptions {
  int64_t num_train_timesteps = 1000;
  FlowShift shift;
  bool invert_sigmas = false;
  bool use_karras_sigmas = false;
  bool use_exponential_sigmas = false;
};

class FlowMatchSchedule : public NoiseSchedule {
 public:
  FlowMatchSchedule(std::vector<float> timesteps, std::vector<float> sigmas)
      : NoiseSchedule(std::move(timesteps), std::move(sigmas),
                      /*init_noise_sigma=*/1.0f) {}

  at::Tensor make_step(const at::Tensor& model_output, int i,
                       const at::Tensor& sample, NoiseSource&) override {
    // A tensor without dimensions: its product keeps model_output's dtype.
    const at::Tensor dt =
        at::scalar_tensor(sigmas()[i + 1] - sigmas()[i], at::kFloat);
    const at::Tensor next = sample.to(at::kFloat) + dt * model_output;
    return next.to(model_output.scalar_type());
  }
};

// Moves a level towards noise by a constant factor.
float shift_sigma(double shift, float sigma) {
  const float constant = static_cast<float>(shift);
  const float constant_minus_one = static_cast<float>(shift - 1);
  return constant * sigma / (1 + constant_minus_one * sigma);
}

class FlowMatchEulerDiscrete : public NoiseScheduler {
 public:
  explicit FlowMatchEulerDiscrete(const FlowMatchOptions& options)
      : options_(options) {}

  std::string name() const override { return "FlowMatchEulerDiscrete"; }

  Prediction prediction() const override { return Prediction::kFlow; }
  CustomSigmas custom_sigmas() const override { return CustomSigmas::kPerStep; }

  bool needs_image_seq_len() const override {
    return options_.shift.use_dynamic_shifting;
  }
  std::optional<FlowTraits> flow_traits() const override {
    FlowTraits traits;
    traits.num_train_timesteps = options_.num_train_timesteps;
    traits.inverts_sigmas = options_.invert_sigmas;
    traits.has_linear_time_shift = options_.shift.linear_time_shift;
    traits.takes_timesteps = true;
    return traits;
  }

  // The one level of a single step is 1, which cannot be stretched to the
  // terminal one.
  StepRange step_range() const override {
    StepRange range;
    if (options_.shift.shift_terminal != 0) range.min = 2;
    return range;
  }

  absl::StatusOr<std::unique_ptr<NoiseSchedule>> compute_schedule(
      const NoiseScheduleOptions& request) const override {
    if (request.sigmas.empty() && request.num_inference_steps < 1) {
      return absl::InvalidArgumentError("num_inference_steps is less than 1");
    }
    const int steps = request.sigmas.empty()
                          ? request.num_inference_steps
                          : static_cast<int>(request.sigmas.size());
    ASSIGN_OR_RETURN(
        const double mu,
        options_.shift.mu(request.mu, request.image_seq_len, steps));
    const float train_steps = static_cast<float>(options_.num_train_timesteps);
    std::vector<float> sigmas;
    std::vector<float> timesteps;
    for (double level : compute_levels(request, mu)) {
      const float sigma = static_cast<float>(level);
      sigmas.push_back(options_.invert_sigmas ? 1 - sigma : sigma);
      timesteps.push_back(sigmas.back() * train_steps);
    }
    sigmas.push_back(options_.invert_sigmas ? 1.0f : 0.0f);
    // diffusers has no use for them where it inverts.
    if (!request.timesteps.empty() && !options_.invert_sigmas) {
      timesteps.assign(request.timesteps.begin(), request.timesteps.end());
    }
    return std::make_unique<FlowMatchSchedule>(std::move(timesteps),
                                               std::move(sigmas));
  }

 private:
  // The levels before each step.
  std::vector<double> compute_levels(const NoiseScheduleOptions& request,
                                     double mu) const {
    std::vector<double> levels;
    if (request.sigmas.empty()) {
      levels = own_grid(request.num_inference_steps);
      options_.shift.apply(mu, &levels);
    } else {
      std::vector<float> custom(request.sigmas.begin(), request.sigmas.end());
      options_.shift.apply(mu, &custom);
      levels.assign(custom.begin(), custom.end());
    }
    const int count = static_cast<int>(levels.size());
    if (options_.use_karras_sigmas) {
      return karras_sigmas(levels.back(), levels.front(), count);
    }
    if (options_.use_exponential_sigmas) {
      return exponential_sigmas(levels.back(), levels.front(), count);
    }
    return levels;
  }

  // diffusers' own grid. With a constant shift its ends are shifted here
  // already, in float32, so that the last level is shifted twice.
  std::vector<double> own_grid(int count) const {
    const double train_steps =
        static_cast<double>(options_.num_train_timesteps);
    float max = 1.0f;
    float min = 1.0f / static_cast<float>(train_steps);
    if (!options_.shift.use_dynamic_shifting) {
      max = shift_sigma(options_.shift.shift, max);
      min = shift_sigma(options_.shift.shift, min);
    }
    std::vector<double> levels =
        linspace(max * train_steps, min * train_steps, count);
    for (double& level : levels) level /= train_steps;
    return levels;
  }

  const FlowMatchOptions options_;
};

FlowMatchOptions read_options(SchedulerConfig& config) {
  FlowMatchOptions options;
  options.num_train_timesteps =
      config.get_int("num_train_timesteps", 1000, 1, 1000000);
  options.shift = read_dynamic_shift(config);
  options.shift.shift = config.get_double("shift", 1.0, 1e-6, 1e6);
  options.shift.linear_time_shift =
      config.get_choice("time_shift_type", "exponential",
                        {"exponential", "linear"}) == "linear";
  options.shift.shift_terminal =
      config.get_optional_double("shift_terminal", 0, 0.999999).value_or(0);
  options.invert_sigmas = config.get_bool("invert_sigmas", false);
  options.use_karras_sigmas = config.get_bool("use_karras_sigmas", false);
  options.use_exponential_sigmas =
      config.get_bool("use_exponential_sigmas", false);
  config.refuse("use_beta_sigmas");
  config.refuse("stochastic_sampling");
  if (options.use_karras_sigmas && options.use_exponential_sigmas) {
    config.add_error("use_karras_sigmas",
                     "and use_exponential_sigmas exclude each other");
  }
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NoiseScheduler>> make_flow_match_euler_discrete(
    SchedulerConfig config) {
  const FlowMatchOptions options = read_options(config);
  RETURN_IF_ERROR(config.finish());
  return std::make_unique<FlowMatchEulerDiscrete>(options);
}

}  // namespace ferry
