#pragma once

#include "absl/strings/string_view.h"
#include "ferry/config/v1/pipeline_manifest.pb.h"

namespace ferry {

// What a pipeline of diffusers hands to its NoiseScheduler.
struct KnownPipeline {
  absl::string_view class_name;
  config::v1::SigmaGrid sigma_grid;
  // MU_UNSPECIFIED: nothing, so that dynamic shifting fails.
  config::v1::Mu mu;
  // Solvers with use_flow_sigmas make their own levels.
  bool leaves_grid_to_solvers;
};

// The pipeline of that class, nullptr when it is unknown. For packages whose
// manifest leaves it open; tools/goldens compares them with what diffusers'
// pipelines do.
const KnownPipeline* find_known_pipeline(absl::string_view class_name);

}  // namespace ferry
