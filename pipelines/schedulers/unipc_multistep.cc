#include "pipelines/schedulers/unipc_multistep.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/ops/expm1.h"
#include "ATen/ops/linalg_solve.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/pow.h"
#include "ATen/ops/stack.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pipelines/schedulers/multistep.h"
#include "pipelines/schedulers/sigma_grids.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

struct UniPcOptions {
  MultistepOptions multistep;
  bool predict_x0 = true;
  bool is_bh1 = false;
  // Steps, from 0, after which the sample is not corrected.
  std::set<int64_t> disable_corrector;
};

class UniPcSchedule : public NoiseSchedule {
 public:
  UniPcSchedule(std::vector<float> timesteps, std::vector<float> sigmas,
                const UniPcOptions& options)
      : NoiseSchedule(std::move(timesteps), std::move(sigmas),
                      /*init_noise_sigma=*/1.0f),
        options_(options) {}

  at::Tensor make_step(const at::Tensor& model_output, int i,
                       const at::Tensor& sample, NoiseSource&) override {
    at::Tensor latents = sample.to(at::kFloat);
    const at::Tensor converted =
        convert(model_output.to(at::kFloat), i, latents);
    if (i > 0 && options_.disable_corrector.count(i - 1) == 0) {
      latents = correct(converted, i);
    }
    outputs_.insert(outputs_.begin(), converted);
    const int solver_order = options_.multistep.solver_order;
    outputs_.resize(
        std::min(outputs_.size(), static_cast<size_t>(solver_order)));
    order_ = std::min(solver_order, i + 1);
    if (options_.multistep.lower_order_final) {
      order_ = std::min(order_, num_steps() - i);
    }
    corrected_ = std::move(latents);
    return predict(i).to(model_output.scalar_type());
  }

 private:
  // One update from level `from` to level `to`: what predictor and corrector
  // have in common (Zhao et al. 2023).
  struct Update {
    // The first-order result.
    at::Tensor base;
    // What corrections of the output are multiplied by, to be taken away.
    at::Tensor weight;
    // Differences of the older outputs to the latest, order - 1 of them.
    std::vector<at::Tensor> differences;
    // The linear system of their coefficients.
    at::Tensor matrix;
    at::Tensor right_side;
  };

  SolverLevel level(int i) const {
    return SolverLevel(sigmas()[i], options_.multistep.use_flow_sigmas);
  }

  at::Tensor convert(const at::Tensor& output, int i,
                     const at::Tensor& latents) const {
    return options_.predict_x0
               ? predict_image(options_.multistep, level(i), output, latents)
               : predict_noise(options_.multistep, level(i), output, latents);
  }

  Update make_update(int from, const at::Tensor& sample) const {
    const SolverLevel start = level(from);
    const SolverLevel end = level(from + 1);
    const at::Tensor h = end.lambda - start.lambda;
    const at::Tensor hh = options_.predict_x0 ? -h : h;
    const at::Tensor h_phi_1 = at::expm1(hh);
    const at::Tensor b_h = options_.is_bh1 ? hh : h_phi_1;
    const at::Tensor scale = options_.predict_x0 ? end.alpha : end.sigma;

    Update update;
    update.base = (options_.predict_x0 ? end.sigma / start.sigma
                                       : end.alpha / start.alpha) *
                      sample -
                  scale * h_phi_1 * outputs_[0];
    update.weight = scale * b_h;
    std::vector<at::Tensor> ratios;
    for (int i = 1; i < order_; ++i) {
      const at::Tensor ratio = (level(from - i).lambda - start.lambda) / h;
      ratios.push_back(ratio);
      update.differences.push_back((outputs_[i] - outputs_[0]) / ratio);
    }
    ratios.push_back(at::ones({}, at::kFloat));
    const at::Tensor all = at::stack(ratios);
    std::vector<at::Tensor> rows;
    std::vector<at::Tensor> right_side;
    at::Tensor h_phi_k = h_phi_1 / hh - 1;
    int factorial = 1;
    for (int i = 1; i <= order_; ++i) {
      rows.push_back(at::pow(all, i - 1));
      right_side.push_back(h_phi_k * factorial / b_h);
      factorial *= i + 1;
      h_phi_k = h_phi_k / hh - 1.0 / factorial;
    }
    update.matrix = at::stack(rows);
    update.right_side = at::stack(right_side);
    return update;
  }

  // From level i to i + 1.
  at::Tensor predict(int i) const {
    const Update update = make_update(i, corrected_);
    if (order_ == 1) return update.base;
    // Order 2 is simplified, as in diffusers.
    if (order_ == 2)
      return update.base - update.weight * (0.5 * update.differences[0]);
    const int64_t count = order_ - 1;
    const at::Tensor factors =
        at::linalg_solve(update.matrix.slice(0, 0, count).slice(1, 0, count),
                         update.right_side.slice(0, 0, count));
    return update.base - update.weight * weighted_sum(factors, update);
  }

  // The sample at level i again, now that the model's output there is known.
  at::Tensor correct(const at::Tensor& output, int i) const {
    const Update update = make_update(i - 1, corrected_);
    const at::Tensor latest = output - outputs_[0];
    if (order_ == 1) return update.base - update.weight * (0.5 * latest);
    const at::Tensor factors =
        at::linalg_solve(update.matrix, update.right_side);
    return update.base - update.weight * (weighted_sum(factors, update) +
                                          factors[-1] * latest);
  }

  static at::Tensor weighted_sum(const at::Tensor& factors,
                                 const Update& update) {
    at::Tensor sum = factors[0] * update.differences[0];
    for (size_t i = 1; i < update.differences.size(); ++i) {
      sum = sum + factors[static_cast<int64_t>(i)] * update.differences[i];
    }
    return sum;
  }

  const UniPcOptions options_;
  // Converted outputs, the latest first; as many as the order.
  std::vector<at::Tensor> outputs_;
  // Of the last step: its order, and the sample that it started from.
  int order_ = 0;
  at::Tensor corrected_;
};

class UniPcMultistep : public NoiseScheduler {
 public:
  explicit UniPcMultistep(const UniPcOptions& options)
      : options_(options), training_(options.multistep.betas) {}

  std::string name() const override { return "UniPCMultistep"; }
  Prediction prediction() const override {
    return options_.multistep.prediction;
  }
  CustomSigmas custom_sigmas() const override {
    return options_.multistep.use_flow_sigmas &&
                   !options_.multistep.use_karras_sigmas
               ? CustomSigmas::kPerStep
               : CustomSigmas::kRefused;
  }
  bool needs_image_seq_len() const override {
    return options_.multistep.flow_shift.use_dynamic_shifting;
  }
  std::optional<FlowTraits> flow_traits() const override {
    if (custom_sigmas() != CustomSigmas::kPerStep) return std::nullopt;
    FlowTraits traits;
    traits.num_train_timesteps = options_.multistep.betas.num_train_timesteps;
    return traits;
  }
  // One level cannot be stretched to the terminal one.
  StepRange step_range() const override {
    const bool stretches = options_.multistep.flow_shift.shift_terminal != 0;
    return {stretches ? 2 : 1,
            static_cast<int>(options_.multistep.betas.num_train_timesteps) - 1};
  }

  absl::StatusOr<std::unique_ptr<NoiseSchedule>> compute_schedule(
      const NoiseScheduleOptions& request) const override {
    const bool is_custom = !request.sigmas.empty();
    if (is_custom && custom_sigmas() == CustomSigmas::kRefused) {
      return absl::InvalidArgumentError(absl::StrCat(
          name(),
          " takes custom sigmas only with use_flow_sigmas and without "
          "use_karras_sigmas"));
    }
    const size_t n =
        is_custom
            ? request.sigmas.size()
            : static_cast<size_t>(std::max(0, request.num_inference_steps));
    const StepRange range = step_range();
    if (n < static_cast<size_t>(range.min) ||
        n > static_cast<size_t>(range.max)) {
      return absl::InvalidArgumentError(absl::StrCat(
          name(), " makes ", range.min, " to ", range.max, " steps"));
    }
    ASSIGN_OR_RETURN(const double mu, options_.multistep.flow_shift.mu(
                                          request.mu, request.image_seq_len,
                                          static_cast<int>(n)));
    const MultistepGrid grid =
        make_grid(static_cast<int>(n), request.sigmas, mu);
    RETURN_IF_ERROR(
        check_flow_levels(name(), options_.multistep, grid.levels()));
    return std::make_unique<UniPcSchedule>(grid.model_timesteps(),
                                           grid.levels(), options_);
  }

 private:
  MultistepGrid make_grid(int n, const std::vector<double>& custom,
                          double mu) const {
    const MultistepOptions& multistep = options_.multistep;
    MultistepGrid grid;
    if (multistep.use_karras_sigmas || multistep.use_exponential_sigmas) {
      grid = spaced_grid(multistep, training_, n);
      if (multistep.use_flow_sigmas) {
        for (double& sigma : grid.sigmas) sigma = sigma / (sigma + 1);
        set_flow_timesteps(&grid);
      } else if (multistep.use_karras_sigmas) {
        for (double& t : grid.timesteps) t = std::nearbyint(t);
      }
    } else if (multistep.use_flow_sigmas) {
      grid = flow_grid(n, custom, mu);
    } else {
      grid.timesteps = multistep.spacing.multistep_timesteps(
          n, multistep.betas.num_train_timesteps);
      for (double timestep : grid.timesteps) {
        grid.sigmas.push_back(training_.interpolate(timestep));
      }
      grid.sigmas.push_back(multistep.final_sigma_is_min ? training_.min()
                                                         : 0.0);
      return grid;
    }
    grid.sigmas.push_back(multistep.final_sigma_is_min ? grid.sigmas.back()
                                                       : 0.0);
    return grid;
  }

  MultistepGrid flow_grid(int n, const std::vector<double>& custom,
                          double mu) const {
    constexpr double kAlmostOne = 1e-6;
    MultistepGrid grid;
    grid.sigmas = custom;
    if (custom.empty()) {
      const double train_steps =
          static_cast<double>(options_.multistep.betas.num_train_timesteps);
      grid.sigmas = linspace(1, 1 / train_steps, n + 1);
      grid.sigmas.pop_back();
    }
    options_.multistep.flow_shift.apply(mu, &grid.sigmas);
    // Pure noise has no logarithm of its signal.
    if (std::abs(grid.sigmas[0] - 1) < kAlmostOne) {
      grid.sigmas[0] -= kAlmostOne;
    }
    set_flow_timesteps(&grid);
    return grid;
  }

  void set_flow_timesteps(MultistepGrid* grid) const {
    const double train_steps =
        static_cast<double>(options_.multistep.betas.num_train_timesteps);
    grid->timesteps.clear();
    for (double sigma : grid->sigmas) {
      grid->timesteps.push_back(sigma * train_steps);
    }
  }

  const UniPcOptions options_;
  const TrainingSigmas training_;
};

UniPcOptions read_options(SchedulerConfig& config) {
  UniPcOptions options;
  options.multistep = read_multistep_options(config);
  MultistepOptions& multistep = options.multistep;
  multistep.flow_shift.shift_terminal =
      config.get_optional_double("shift_terminal", 0, 0.999999).value_or(0);
  options.predict_x0 = config.get_bool("predict_x0", true);
  // diffusers takes the names of related classes for bh2.
  options.is_bh1 =
      config.get_choice("solver_type", "bh2",
                        {"bh1", "bh2", "midpoint", "heun", "logrho"}) == "bh1";
  for (int64_t step : config.get_int_list("disable_corrector")) {
    options.disable_corrector.insert(step);
  }
  config.refuse("solver_p");
  if (multistep.flow_shift.shift_terminal != 0 && !multistep.use_flow_sigmas) {
    config.add_error("shift_terminal", "needs use_flow_sigmas");
  }
  if (!options.predict_x0 && multistep.prediction == Prediction::kFlow) {
    config.add_error("predict_x0", "must be true with flow_prediction");
  }
  if (!options.predict_x0 && !multistep.final_sigma_is_min) {
    config.add_error("final_sigmas_type",
                     "must be sigma_min when predict_x0 is false");
  }
  if (multistep.solver_order > 1 && !multistep.lower_order_final &&
      !multistep.final_sigma_is_min) {
    config.add_error("lower_order_final",
                     "must be true when final_sigmas_type is zero");
  }
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NoiseScheduler>> make_unipc_multistep(
    SchedulerConfig config) {
  const UniPcOptions options = read_options(config);
  config.ignore_compatible_options();
  RETURN_IF_ERROR(config.finish());
  return std::make_unique<UniPcMultistep>(options);
}

}  // namespace ferry
