#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ferry/v1/generation_spec.pb.h"
#include "pipelines/images/png_encoder.h"

namespace ferry {

// What a picture's file says about how it was made: prompt, settings and the
// picture's own seed. Written only when the client asks for it.
std::vector<PngText> make_output_texts(const v1::GenerationSpec& spec,
                                       const std::string& scheduler,
                                       int64_t seed);

}  // namespace ferry
