#pragma once

#include <cstdint>
#include <string>

#include "ferry/v1/generation_spec.pb.h"

namespace ferry {

// How a picture was made: prompts, settings and the picture's own seed, in the
// form that Stable Diffusion's user interfaces write and many tools read:
//
//   a red fox
//   Negative prompt: blurry
//   Steps: 28, Sampler: FlowMatchEulerDiscrete, CFG scale: 3.5, Seed: 7, …
//
// Written into a file only when the client asks for it.
// `spec` has every default filled in.
std::string make_output_text(const v1::GenerationSpec& spec, int64_t seed);

}  // namespace ferry
