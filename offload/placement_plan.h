#pragma once

#include <vector>

#include "offload/block_ring.h"
#include "offload/hook_registry.h"
#include "offload/tensor_group.h"
#include "offload/written_state.h"

namespace ferry {

// Where the state of a pipeline goes: a ResolvedPlan with the tensors in it.
// Each tensor that the pipeline reaches is in one list, once.
struct PlacementPlan {
  struct Ring {
    BlockRingOptions options;
    // In the order of a pass; none is empty.
    std::vector<TensorGroup> blocks;
    // For each block, where its hook goes.
    std::vector<HookRegistry*> hooks;
    // Each rank of the group has a share of every block.
    bool is_gathered = false;
    // Of the component whose blocks they are.
    HookRegistry* component_hooks = nullptr;
  };
  // A component whose state is looked at before it runs.
  struct Audit {
    HookRegistry* hooks = nullptr;
    std::vector<NamedTensor> tensors;
  };

  std::vector<TensorGroup> resident;
  // Resident, too; the module's.
  WrittenState* written = nullptr;
  std::vector<Ring> rings;
  std::vector<Audit> audits;
};

}  // namespace ferry
