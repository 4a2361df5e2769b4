#pragma once

#include <vector>

#include "ferry/v1/generation_spec.pb.h"
#include "ferry/v1/pipeline.pb.h"
#include "server/core/errors.h"

namespace ferry {

// Checks how a request wants to be sampled and fills its defaults in:
// scheduler, num_inference_steps, sigmas. A spec with sigmas keeps
// num_inference_steps unset, so that it can be sent again. Returns every
// violation. `limits`: effective_limits() of the pipeline.
std::vector<FieldViolation> complete_sampling_spec(const v1::Pipeline& pipeline,
                                                   const v1::Limits& limits,
                                                   v1::GenerationSpec* spec);

// Denoising steps of a completed spec; with sigmas one more than some
// schedulers make.
int count_steps(const v1::GenerationSpec& spec);

}  // namespace ferry
