#pragma once

#include <cstdint>
#include <vector>

#include "pipelines/schedulers/scheduler_config.h"

namespace ferry {

// How the timesteps of a generation lie among those of training; diffusers'
// timestep_spacing and steps_offset (Lin et al. 2023, table 2). A value.
struct TimestepSpacing {
  enum class Kind { kLinspace, kLeading, kTrailing };

  Kind kind = Kind::kLinspace;
  int64_t steps_offset = 0;
  int64_t num_train_timesteps = 1000;

  // Falling timesteps of n steps; linspace gives fractions, rounded to
  // float32. REQUIRES: 1 <= n <= num_train_timesteps.
  std::vector<double> timesteps(int n) const;
  // The same in whole numbers. REQUIRES: as timesteps().
  std::vector<double> whole_timesteps(int n) const;
  // The same for samplers that keep the lowest timestep for themselves: they
  // space n + 1 and leave the last one out. All whole numbers.
  // `last_timestep`: of training, from where on they are used; trailing then
  // gives fewer than n.
  // REQUIRES: 1 <= n < last_timestep <= num_train_timesteps.
  std::vector<double> multistep_timesteps(int n, int64_t last_timestep) const;
};

// Reads timestep_spacing (`fallback` when absent) and steps_offset.
TimestepSpacing read_timestep_spacing(SchedulerConfig& config,
                                      const char* fallback,
                                      int64_t num_train_timesteps);

}  // namespace ferry
