#include "pipelines/schedulers/dpm_solver_multistep.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/ops/exp.h"
#include "ATen/ops/pow.h"
#include "ATen/ops/sqrt.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pipelines/schedulers/multistep.h"
#include "pipelines/schedulers/sigma_grids.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// With fewer steps diffusers lowers the order of the last ones.
constexpr int kFewSteps = 15;

struct DpmSolverOptions {
  MultistepOptions multistep;
  // sde-dpmsolver++: adds noise at each step.
  bool is_stochastic = false;
  bool is_heun = false;
  bool euler_at_final = false;
  // Training timesteps with less signal are left out.
  double lambda_min_clipped = -INFINITY;
};

class DpmSolverSchedule : public NoiseSchedule {
 public:
  DpmSolverSchedule(std::vector<float> timesteps, std::vector<float> sigmas,
                    const DpmSolverOptions& options)
      : NoiseSchedule(std::move(timesteps), std::move(sigmas),
                      /*init_noise_sigma=*/1.0f),
        options_(options) {}

  at::Tensor make_step(const at::Tensor& model_output, int i,
                       const at::Tensor& sample, NoiseSource& noise) override {
    const at::Tensor latents = sample.to(at::kFloat);
    images_.insert(images_.begin(),
                   predict_image(options_.multistep, level(i),
                                 model_output.to(at::kFloat), latents));
    const int order = order_at(i);
    images_.resize(std::min(
        images_.size(), static_cast<size_t>(options_.multistep.solver_order)));
    at::Tensor next;
    if (options_.is_stochastic) {
      const at::Tensor drawn = noise.draw(latents.sizes());
      next = stochastic_update(i, order, latents, drawn.to(latents.device()));
    } else {
      next = update(i, order, latents);
    }
    return next.to(model_output.scalar_type());
  }

 private:
  SolverLevel level(int i) const {
    return SolverLevel(sigmas()[i], options_.multistep.use_flow_sigmas);
  }

  int order_at(int i) const {
    const MultistepOptions& multistep = options_.multistep;
    const bool is_short =
        multistep.lower_order_final && num_steps() < kFewSteps;
    int order = std::min(multistep.solver_order, i + 1);
    if (i == num_steps() - 1 && (options_.euler_at_final || is_short ||
                                 !multistep.final_sigma_is_min)) {
      order = 1;
    } else if (i == num_steps() - 2 && is_short) {
      order = std::min(order, 2);
    }
    return order;
  }

  // Differences of the predicted images, as a polynomial's derivatives.
  struct Differences {
    at::Tensor first;
    at::Tensor second;
  };

  Differences differences(int i, int order, const at::Tensor& h) const {
    Differences d;
    const SolverLevel now = level(i);
    const SolverLevel before = level(i - 1);
    const at::Tensor r0 = (now.lambda - before.lambda) / h;
    d.first = (1.0 / r0) * (images_[0] - images_[1]);
    if (order < 3) return d;
    const at::Tensor r1 = (before.lambda - level(i - 2).lambda) / h;
    const at::Tensor older = (1.0 / r1) * (images_[1] - images_[2]);
    const at::Tensor bend = d.first - older;
    d.first = d.first + (r0 / (r0 + r1)) * bend;
    d.second = (1.0 / (r0 + r1)) * bend;
    return d;
  }

  at::Tensor update(int i, int order, const at::Tensor& latents) const {
    const SolverLevel now = level(i);
    const SolverLevel next = level(i + 1);
    const at::Tensor h = next.lambda - now.lambda;
    const at::Tensor decay = at::exp(-h) - 1.0;
    at::Tensor result =
        (next.sigma / now.sigma) * latents - (next.alpha * decay) * images_[0];
    if (order == 1) return result;
    const Differences d = differences(i, order, h);
    if (order == 2 && !options_.is_heun) {
      return result - 0.5 * (next.alpha * decay) * d.first;
    }
    at::Tensor heun = result + (next.alpha * (decay / h + 1.0)) * d.first;
    if (order == 2) return heun;
    return heun - (next.alpha * ((decay + h) / at::pow(h, 2) - 0.5)) * d.second;
  }

  at::Tensor stochastic_update(int i, int order, const at::Tensor& latents,
                               const at::Tensor& noise) const {
    const SolverLevel now = level(i);
    const SolverLevel next = level(i + 1);
    const at::Tensor h = next.lambda - now.lambda;
    const at::Tensor growth = 1 - at::exp(-2.0 * h);
    at::Tensor result = (next.sigma / now.sigma * at::exp(-h)) * latents +
                        (next.alpha * growth) * images_[0];
    if (order == 2) {
      const at::Tensor first = differences(i, order, h).first;
      result = options_.is_heun
                   ? result + (next.alpha * (growth / (-2.0 * h) + 1.0)) * first
                   : result + 0.5 * (next.alpha * growth) * first;
    }
    return result + next.sigma * at::sqrt(growth) * noise;
  }

  const DpmSolverOptions options_;
  // Predicted images, the latest first; as many as the order.
  std::vector<at::Tensor> images_;
};

class DpmSolverMultistep : public NoiseScheduler {
 public:
  explicit DpmSolverMultistep(const DpmSolverOptions& options)
      : options_(options),
        training_(options.multistep.betas),
        last_timestep_(training_.count_above(options.lambda_min_clipped)) {}

  std::string name() const override { return "DPMSolverMultistep"; }
  Prediction prediction() const override {
    return options_.multistep.prediction;
  }
  bool needs_image_seq_len() const override {
    return options_.multistep.flow_shift.use_dynamic_shifting;
  }
  StepRange step_range() const override {
    return {1, static_cast<int>(last_timestep_) - 1};
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
    ASSIGN_OR_RETURN(const double mu, options_.multistep.flow_shift.mu(
                                          request.mu, request.image_seq_len,
                                          static_cast<int>(n)));
    const MultistepGrid grid = make_grid(n, mu);
    RETURN_IF_ERROR(
        check_flow_levels(name(), options_.multistep, grid.levels()));
    return std::make_unique<DpmSolverSchedule>(grid.model_timesteps(),
                                               grid.levels(), options_);
  }

 private:
  MultistepGrid make_grid(int n, double mu) const {
    const MultistepOptions& multistep = options_.multistep;
    MultistepGrid grid;
    if (multistep.use_flow_sigmas) {
      grid = flow_grid(n, mu);
    } else if (multistep.use_karras_sigmas ||
               multistep.use_exponential_sigmas) {
      grid = spaced_grid(multistep, training_, n);
      if (multistep.use_karras_sigmas &&
          multistep.betas.kind != "squaredcos_cap_v2") {
        for (double& t : grid.timesteps) t = std::nearbyint(t);
      }
    } else {
      grid.timesteps = multistep.spacing.multistep_timesteps(n, last_timestep_);
      for (double timestep : grid.timesteps) {
        grid.sigmas.push_back(training_.interpolate(timestep));
      }
    }
    grid.sigmas.push_back(multistep.final_sigma_is_min ? training_.min() : 0.0);
    return grid;
  }

  MultistepGrid flow_grid(int n, double mu) const {
    const double train_steps =
        static_cast<double>(options_.multistep.betas.num_train_timesteps);
    const FlowShift& flow = options_.multistep.flow_shift;
    const double shift = flow.use_dynamic_shifting ? std::exp(mu) : flow.shift;
    MultistepGrid grid;
    for (double alpha : linspace(1, 1 / train_steps, n + 1)) {
      const double sigma = 1.0 - alpha;
      grid.sigmas.push_back(shift * sigma / (1 + (shift - 1) * sigma));
    }
    std::reverse(grid.sigmas.begin(), grid.sigmas.end());
    grid.sigmas.pop_back();
    for (double sigma : grid.sigmas) {
      grid.timesteps.push_back(sigma * train_steps);
    }
    return grid;
  }

  const DpmSolverOptions options_;
  const TrainingSigmas training_;
  // Training timesteps that are used: those below.
  const int64_t last_timestep_;
};

DpmSolverOptions read_options(SchedulerConfig& config) {
  DpmSolverOptions options;
  options.multistep = read_multistep_options(config);
  // diffusers takes the names of related classes for these.
  options.is_stochastic = config.get_choice("algorithm_type", "dpmsolver++",
                                            {"dpmsolver++", "sde-dpmsolver++",
                                             "deis"}) == "sde-dpmsolver++";
  options.is_heun =
      config.get_choice("solver_type", "midpoint",
                        {"midpoint", "heun", "logrho", "bh1", "bh2"}) == "heun";
  options.euler_at_final = config.get_bool("euler_at_final", false);
  options.lambda_min_clipped =
      config.get_double("lambda_min_clipped", -INFINITY, -INFINITY, 0);
  config.refuse("use_lu_lambdas");
  config.refuse("variance_type");
  if (options.is_stochastic && options.multistep.solver_order == 3) {
    config.add_error("solver_order", "must be 1 or 2 with sde-dpmsolver++");
  }
  if (options.multistep.use_flow_sigmas &&
      options.multistep.use_karras_sigmas) {
    config.add_error("use_flow_sigmas",
                     "and use_karras_sigmas exclude each other");
  }
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NoiseScheduler>> make_dpm_solver_multistep(
    SchedulerConfig config) {
  const DpmSolverOptions options = read_options(config);
  config.ignore_compatible_options();
  RETURN_IF_ERROR(config.finish());
  auto scheduler = std::make_unique<DpmSolverMultistep>(options);
  if (scheduler->step_range().max < 1) {
    config.add_error("lambda_min_clipped", "leaves no timesteps");
    return config.finish();
  }
  return scheduler;
}

}  // namespace ferry
