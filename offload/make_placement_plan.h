#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "offload/offload_config.h"
#include "offload/offloadable_module.h"
#include "offload/placement_plan.h"
#include "offload/resolved_plan.h"

namespace ferry {

// FAILED_PRECONDITION: a backend has the module's state, or had it and was
// given up. To be asked before anything of the module is touched.
absl::Status check_nobody_holds(OffloadableModule& module);

// Finds the tensors of a plan: which images there are, which rings carry them,
// with at most `slots` slots each, and what stays. At model level all selected
// components share one slot; else those that are staged on demand do.
// Components inside of others that would have to share a slot with them stay
// on the device. Pure: moves nothing.
//
// `plan` was resolved for the module's tree. INVALID_ARGUMENT names the
// module's obstacles and all tensors that no image can hold: those that are
// not dense and strided, without values, or not on the host.
absl::StatusOr<PlacementPlan> make_placement_plan(OffloadableModule& module,
                                                  const ResolvedPlan& plan,
                                                  const OffloadConfig& config,
                                                  int slots);

}  // namespace ferry
