#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pipelines/schedulers/noise_scheduler.h"
#include "pipelines/schedulers/scheduler_config.h"

namespace ferry {

// diffusers' EulerDiscreteScheduler (without churn): Euler's method on the
// probability flow of a variance-preserving model. Refused: trained_betas,
// use_beta_sigmas.
absl::StatusOr<std::unique_ptr<NoiseScheduler>> make_euler_discrete(
    SchedulerConfig config);

}  // namespace ferry
