#pragma once

#include "absl/status/status.h"
#include "offload/omni_diffusion_config.h"

namespace ferry {

// Whether Ferry can run what the ranks shall share; the table stands at
// DiffusionParallelConfig. UNIMPLEMENTED with every field that asks for more,
// and what would work in its place.
absl::Status check_parallel_config(const DiffusionParallelConfig& config);

}  // namespace ferry
