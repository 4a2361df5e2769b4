#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pipelines/schedulers/noise_scheduler.h"
#include "pipelines/schedulers/scheduler_config.h"

namespace ferry {

// diffusers' FlowMatchEulerDiscreteScheduler: rectified flow, one Euler step a
// level. Levels go from 1 (noise) to 0, shifted by a constant or by the size of
// the image. Refused: use_beta_sigmas, stochastic_sampling.
absl::StatusOr<std::unique_ptr<NoiseScheduler>> make_flow_match_euler_discrete(
    SchedulerConfig config);

}  // namespace ferry
