#pragma once

#include "offload/module_tree.h"
#include "offload/resolved_plan.h"

namespace ferry {

// Gives each storage of the tree one owner and its bytes to that owner: fills
// in plan->storages and the bytes of its blocks and components.
// REQUIRES: no block is in two stacks.
void assign_storages(const ModuleTree& tree, ResolvedPlan* plan);

}  // namespace ferry
