#pragma once

#include <cstdint>
#include <string>

#include "ATen/core/Tensor.h"

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
// [num_train_timesteps], computed as diffusers does.
at::Tensor compute_alphas_cumprod(const BetaSchedule& schedule);

}  // namespace ferry
