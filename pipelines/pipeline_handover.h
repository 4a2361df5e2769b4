#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ferry/config/v1/pipeline_manifest.pb.h"
#include "pipelines/model_index.h"
#include "pipelines/schedulers/mu.h"
#include "pipelines/schedulers/noise_scheduler.h"
#include "pipelines/schedulers/pipeline_grid.h"

namespace ferry {

// Fills in sigma_grid, and mu where `scheduler` shifts by the size of the
// image: what the manifest says, else what the pipeline in model_index.json
// does, else what is usual for the NoiseScheduler's file. What was assumed is
// added to `warnings`.
//
// INVALID_ARGUMENT: the folder leaves it open, since pipelines with such a file
// differ or model_index.json names an unknown one; or the NoiseScheduler cannot
// take what the manifest says; names the field and what it may say.
absl::Status complete_handover(const NoiseScheduler& scheduler,
                               const ModelIndex& index,
                               config::v1::NoiseSchedulerConfig* config,
                               std::vector<std::string>* warnings);

// Whether a NoiseScheduler can be handed such levels.
bool can_take(const NoiseScheduler& scheduler, PipelineGrid grid);

// The levels that a pipeline hands over; kNone also for what is not specified.
PipelineGrid to_pipeline_grid(config::v1::SigmaGrid grid);
// The rule for mu of a completed `config`.
MuRule to_mu_rule(const config::v1::NoiseSchedulerConfig& config);

}  // namespace ferry
