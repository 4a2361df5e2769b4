#pragma once

#include <cstdint>
#include <string>

#include "ATen/core/Tensor.h"
#include "pipelines/schedulers/scheduler_config.h"

namespace ferry {

// How much noise each training timestep of a variance-preserving model adds.
struct BetaSchedule {
  int64_t num_train_timesteps = 1000;
  double beta_start = 0.0001;
  double beta_end = 0.02;
  // "linear", "scaled_linear" or "squaredcos_cap_v2".
  std::string kind = "linear";
  // Makes the last timestep pure noise (Lin et al. 2023).
  bool rescale_zero_snr = false;
};

// Products of (1 - beta) up to each training timestep: float32
// [num_train_timesteps], computed as diffusers does. With rescale_zero_snr the
// last one is 0.
at::Tensor compute_alphas_cumprod(const BetaSchedule& schedule);
// The same as CogVideoX computes them: in float64 where the betas are
// scaled_linear, moved towards noise by `snr_shift_scale`, then rescaled.
at::Tensor compute_cogvideox_alphas_cumprod(const BetaSchedule& schedule,
                                            double snr_shift_scale);

// Reads diffusers' keys; `fallback` holds the class's defaults.
BetaSchedule read_beta_schedule(SchedulerConfig& config,
                                const BetaSchedule& fallback = {});

}  // namespace ferry
