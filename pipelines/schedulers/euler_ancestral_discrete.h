#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pipelines/schedulers/noise_scheduler.h"
#include "pipelines/schedulers/scheduler_config.h"

namespace ferry {

// diffusers' EulerAncestralDiscreteScheduler: an Euler step to a level below
// the next, then noise up to it. Draws noise at every step, also at the last,
// which needs none. Refused: trained_betas.
absl::StatusOr<std::unique_ptr<NoiseScheduler>> make_euler_ancestral_discrete(
    SchedulerConfig config);

}  // namespace ferry
