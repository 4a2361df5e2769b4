#include "server/core/generation_work.h"

#include "server/core/sampling_spec.h"

namespace ferry {

GenerationWork work_of(const v1::GenerationSpec& spec,
                       const v1::Pipeline& pipeline) {
  // A negative prompt among the defaults says that the guidance is
  // classifier-free. At a scale of 1 the negative half would not count, and is
  // left out.
  const bool guided =
      pipeline.defaults().has_negative_prompt() && spec.guidance_scale() > 1;
  const int rows = spec.num_images() * (guided ? 2 : 1);
  return {static_cast<double>(spec.height()) * spec.width() * rows,
          count_steps(spec)};
}

}  // namespace ferry
