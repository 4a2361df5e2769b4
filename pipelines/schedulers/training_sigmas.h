#pragma once

#include <vector>

#include "pipelines/schedulers/beta_schedule.h"

namespace ferry {

// Noise levels of a variance-preserving model's training timesteps, as sigma =
// noise / image; they rise with the timestep. Immutable.
class TrainingSigmas {
 public:
  // With rescale_zero_snr the last level is large instead of infinite.
  // REQUIRES: schedule.num_train_timesteps >= 2.
  explicit TrainingSigmas(const BetaSchedule& schedule);

  float min() const { return sigmas_.front(); }
  float max() const { return sigmas_.back(); }
  float log_min() const { return log_sigmas_.front(); }
  float log_max() const { return log_sigmas_.back(); }

  // The level of a timestep, which may lie between two, or outside. NumPy's
  // interp.
  double interpolate(double timestep) const;
  // The timestep of a level, interpolated in log(sigma).
  double to_timestep(double sigma) const;
  // How many timesteps have log(image / noise) of at least `lambda_min`.
  int64_t count_above(double lambda_min) const;

 private:
  // Noise level of each training timestep, and its logarithm; float32 values.
  std::vector<float> sigmas_;
  std::vector<float> log_sigmas_;
  // log(image / noise), which falls.
  std::vector<float> lambdas_;
};

}  // namespace ferry
