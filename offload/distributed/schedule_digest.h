#pragma once

#include <string>

#include "offload/placement_plan.h"

namespace ferry {

// What ranks must agree on before they make a collective, as a few words with a
// hash: the version, the rings with their blocks, sizes, layouts, dtypes and
// slots, what is resident, and samples of the weights' values. The rank is not
// in it.
std::string schedule_digest(const PlacementPlan& plan, int ranks);

}  // namespace ferry
