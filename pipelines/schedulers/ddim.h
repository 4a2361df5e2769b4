#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pipelines/schedulers/noise_scheduler.h"
#include "pipelines/schedulers/scheduler_config.h"

namespace ferry {

// diffusers' DDIMScheduler, deterministic (eta 0). Refused: thresholding,
// trained_betas.
absl::StatusOr<std::unique_ptr<NoiseScheduler>> make_ddim(
    SchedulerConfig config);

// diffusers' CogVideoXDDIMScheduler: the same sampler for betas that are moved
// towards noise by snr_shift_scale, never clipped. Refused: trained_betas.
absl::StatusOr<std::unique_ptr<NoiseScheduler>> make_cogvideox_ddim(
    SchedulerConfig config);

}  // namespace ferry
