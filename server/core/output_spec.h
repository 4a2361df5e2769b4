#pragma once

#include <vector>

#include "ferry/v1/generation_spec.pb.h"
#include "ferry/v1/pipeline.pb.h"
#include "server/core/errors.h"

namespace ferry {

// Fills in the defaults of `spec->output` (format, quality) and returns what
// is wrong with it: values out of range, and what the format cannot hold or
// has no use for. Size and prompts must be filled in; a size beyond `limits`
// is not told again.
//
// Thread-safe.
std::vector<FieldViolation> complete_output_spec(const v1::Limits& limits,
                                                 v1::GenerationSpec* spec);

}  // namespace ferry
