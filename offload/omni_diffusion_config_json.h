#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "offload/omni_diffusion_config.h"

namespace ferry {

// Reads the fields of OmniDiffusionConfig from a JSON object, under their own
// names; `layer_options` is an object with the components as keys. Absent
// fields keep their defaults, as do diffusion_offload_config, parallel_config,
// cache_backend and pin_memory when they are null.
//
// INVALID_ARGUMENT, naming everything at once: text that is no JSON object, a
// value of another type (true is no number, 2.0 no integer), an unknown key, a
// key that is there twice. Values are from_od_config()'s business.
absl::StatusOr<OmniDiffusionConfig> parse_omni_diffusion_config(
    absl::string_view json);

}  // namespace ferry
