#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pipelines/schedulers/noise_scheduler.h"
#include "pipelines/schedulers/scheduler_config.h"

namespace ferry {

// diffusers' DPMSolverMultistepScheduler: DPM-Solver++ of order 1 to 3 (2 is
// known as DPM++ 2M), its stochastic form of order 1 and 2 (DPM++ 2M SDE), for
// variance-preserving models and rectified flow. Refused: the algorithms
// dpmsolver and sde-dpmsolver, use_beta_sigmas, use_lu_lambdas, thresholding,
// variance_type, trained_betas.
absl::StatusOr<std::unique_ptr<NoiseScheduler>> make_dpm_solver_multistep(
    SchedulerConfig config);

}  // namespace ferry
