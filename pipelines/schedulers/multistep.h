#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "pipelines/schedulers/beta_schedule.h"
#include "pipelines/schedulers/flow_shift.h"
#include "pipelines/schedulers/prediction.h"
#include "pipelines/schedulers/scheduler_config.h"
#include "pipelines/schedulers/timestep_spacing.h"
#include "pipelines/schedulers/training_sigmas.h"

namespace ferry {

// What DPMSolverMultistep and UniPCMultistep have in common: solvers that
// reuse the outputs of earlier steps, for variance-preserving models and for
// rectified flow.

struct MultistepOptions {
  BetaSchedule betas;
  int solver_order = 2;
  Prediction prediction = Prediction::kEpsilon;
  bool lower_order_final = true;
  TimestepSpacing spacing;
  bool use_karras_sigmas = false;
  bool use_exponential_sigmas = false;
  // Rectified flow: sigmas lie between 0 and 1.
  bool use_flow_sigmas = false;
  FlowShift flow_shift;
  bool final_sigma_is_min = false;
  // Ends of the Karras and exponential grids.
  std::optional<double> sigma_min;
  std::optional<double> sigma_max;
};

// Reads the keys of both classes, and refuses what neither implements.
MultistepOptions read_multistep_options(SchedulerConfig& config);

// Levels before each step and after the last, and what the model is told.
struct MultistepGrid {
  std::vector<double> sigmas;
  std::vector<double> timesteps;

  // As float32, the timesteps whole, cut as diffusers does.
  std::vector<float> model_timesteps() const;
  std::vector<float> levels() const;
};

// A Karras or exponential grid of n levels, whose timesteps are not rounded
// yet. REQUIRES: options.use_karras_sigmas or use_exponential_sigmas.
MultistepGrid spaced_grid(const MultistepOptions& options,
                          const TrainingSigmas& training, int n);

// INVALID_ARGUMENT, which names the step, unless all levels of rectified flow
// are less than 1: the solvers take logarithms of the rest.
absl::Status check_flow_levels(absl::string_view scheduler,
                               const MultistepOptions& options,
                               const std::vector<float>& levels);

// One noise level as the solvers see it: a sample is alpha * image +
// sigma * noise, lambda is log(alpha / sigma). float32 tensors without
// dimensions, so that products keep the other factor's shape and device.
struct SolverLevel {
  SolverLevel(float level, bool is_flow);

  at::Tensor alpha;
  at::Tensor sigma;
  at::Tensor lambda;
};

// What a model's output says of the image and of the noise.
at::Tensor predict_image(const MultistepOptions& options,
                         const SolverLevel& level, const at::Tensor& output,
                         const at::Tensor& sample);
at::Tensor predict_noise(const MultistepOptions& options,
                         const SolverLevel& level, const at::Tensor& output,
                         const at::Tensor& sample);

}  // namespace ferry
