#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pipelines/schedulers/noise_scheduler.h"
#include "pipelines/schedulers/scheduler_config.h"

namespace ferry {

// diffusers' UniPCMultistepScheduler: a predictor of order 1 to 3 (bh1, bh2)
// whose result each next step corrects, for variance-preserving models and
// rectified flow (Wan). Refused: use_beta_sigmas, thresholding, solver_p,
// trained_betas.
absl::StatusOr<std::unique_ptr<NoiseScheduler>> make_unipc_multistep(
    SchedulerConfig config);

}  // namespace ferry
