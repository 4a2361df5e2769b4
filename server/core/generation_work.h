#pragma once

#include "ferry/v1/generation_spec.pb.h"
#include "ferry/v1/pipeline.pb.h"

namespace ferry {

// What a generation costs, known before anything has run. Comparable within
// one pipeline only.
struct GenerationWork {
  // One pass of the denoiser: pixels of a picture × rows of its batch. All
  // pictures of a request, and both halves of classifier-free guidance, are one
  // batch (pipelines/denoising_loop.h); the pixels of a latent are a fixed
  // share of the picture's.
  double pass = 1;
  // Passes: count_steps().
  int passes = 1;
};

// `spec`: complete, as validate_request() gives it.
GenerationWork work_of(const v1::GenerationSpec& spec,
                       const v1::Pipeline& pipeline);

}  // namespace ferry
