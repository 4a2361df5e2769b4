#include "pipelines/known_pipelines.h"

#include <algorithm>
#include <iterator>

namespace ferry {
namespace {

using namespace config::v1;  // NOLINT: a table of enumerators

constexpr KnownPipeline kKnownPipelines[] = {
    {"AuraFlowPipeline", SIGMA_GRID_SCHEDULER, MU_UNSPECIFIED, false},
    {"ChromaPipeline", SIGMA_GRID_PIPELINE, MU_LINEAR, false},
    {"CogView4Pipeline", SIGMA_GRID_WHOLE_TIMESTEPS, MU_SQUARE_ROOT, false},
    {"ErnieImagePipeline", SIGMA_GRID_PIPELINE, MU_UNSPECIFIED, false},
    {"Flux2KleinPipeline", SIGMA_GRID_PIPELINE, MU_EMPIRICAL, true},
    {"Flux2Pipeline", SIGMA_GRID_PIPELINE, MU_EMPIRICAL, true},
    {"FluxPipeline", SIGMA_GRID_PIPELINE, MU_LINEAR, true},
    {"GlmImagePipeline", SIGMA_GRID_WHOLE_TIMESTEPS_BEFORE_ONE, MU_SQUARE_ROOT,
     false},
    {"HunyuanImagePipeline", SIGMA_GRID_PIPELINE, MU_UNSPECIFIED, false},
    {"HunyuanVideo15Pipeline", SIGMA_GRID_PIPELINE, MU_UNSPECIFIED, false},
    {"HunyuanVideoPipeline", SIGMA_GRID_PIPELINE, MU_UNSPECIFIED, false},
    {"Kandinsky5T2IPipeline", SIGMA_GRID_SCHEDULER, MU_UNSPECIFIED, false},
    {"Kandinsky5T2VPipeline", SIGMA_GRID_SCHEDULER, MU_UNSPECIFIED, false},
    {"LTXConditionPipeline", SIGMA_GRID_LINEAR_QUADRATIC_TIMESTEPS,
     MU_UNSPECIFIED, false},
    {"LTXPipeline", SIGMA_GRID_PIPELINE, MU_LINEAR, false},
    {"LongCatImagePipeline", SIGMA_GRID_PIPELINE, MU_LINEAR, false},
    {"Lumina2Pipeline", SIGMA_GRID_PIPELINE, MU_LINEAR, false},
    {"LuminaPipeline", SIGMA_GRID_SCHEDULER, MU_UNSPECIFIED, false},
    {"MochiPipeline", SIGMA_GRID_LINEAR_QUADRATIC, MU_UNSPECIFIED, false},
    {"OmniGenPipeline", SIGMA_GRID_PIPELINE, MU_UNSPECIFIED, false},
    {"OvisImagePipeline", SIGMA_GRID_PIPELINE, MU_LINEAR, true},
    {"PRXPipeline", SIGMA_GRID_SCHEDULER, MU_UNSPECIFIED, false},
    {"QwenImagePipeline", SIGMA_GRID_PIPELINE, MU_LINEAR, false},
    {"SanaPipeline", SIGMA_GRID_SCHEDULER, MU_UNSPECIFIED, false},
    {"SkyReelsV2Pipeline", SIGMA_GRID_SCHEDULER, MU_UNSPECIFIED, false},
    {"StableDiffusion3Pipeline", SIGMA_GRID_SCHEDULER, MU_LINEAR, false},
    {"WanPipeline", SIGMA_GRID_SCHEDULER, MU_UNSPECIFIED, false},
    {"ZImagePipeline", SIGMA_GRID_PIPELINE, MU_LINEAR, false},
};

}  // namespace

const KnownPipeline* find_known_pipeline(absl::string_view class_name) {
  const auto* const found =
      std::find_if(std::begin(kKnownPipelines), std::end(kKnownPipelines),
                   [&](const KnownPipeline& pipeline) {
                     return pipeline.class_name == class_name;
                   });
  return found == std::end(kKnownPipelines) ? nullptr : found;
}

}  // namespace ferry
