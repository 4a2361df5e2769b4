#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "offload/component_role.h"
#include "offload/hook_registry.h"
#include "offload/module_tree.h"
#include "offload/written_state.h"

namespace ferry {

// One block of a stack that can be streamed.
struct OffloadableBlock {
  // Dotted path from the pipeline's root, such as transformer.blocks.3.
  std::string path;
  // Index in ModuleTree::nodes.
  size_t module = 0;
  // Called around every method of the block.
  HookRegistry* hooks = nullptr;
  // Weights and buffers, storages shared inside the block counted once.
  int64_t bytes = 0;
};

// Blocks in the order in which a pass runs through them.
struct BlockStack {
  std::vector<OffloadableBlock> blocks;
};

// A component of the pipeline.
struct OffloadableComponent {
  // Dotted path from the pipeline's root, such as transformer.
  std::string path;
  ComponentRole role = ComponentRole::kResident;
  // Index in ModuleTree::nodes.
  size_t module = 0;
  // Called around every method of the component's root.
  HookRegistry* hooks = nullptr;
  // At most one for a DiT, whose containers are concatenated; one for each
  // declared container of an encoder; none without declared blocks.
  std::vector<BlockStack> stacks;
  // Weights and buffers, shared storages counted once.
  int64_t bytes = 0;
};

// A loaded pipeline as an offload backend sees it: components with their roles
// and hooks, blocks in order.
//
// Ownership: implemented and owned by the pipeline, which owns everything that
//   it points at; outlives the backend's hooks.
// Threads: not thread-safe; confined to the worker's step thread.
class OffloadableModule {
 public:
  virtual ~OffloadableModule() = default;

  // DiTs, then encoders, VAEs and residents, each in declaration order;
  // constant.
  virtual const std::vector<OffloadableComponent>& components() const = 0;

  // The modules, tensors and declarations, for resolve_offload_plan();
  // constant.
  virtual const ModuleTree& tree() const = 0;

  // The object of a tensor of tree(), by ModuleTensor::identity: what
  // set_data() gives it, the methods see.
  virtual const at::Tensor& tensor(int64_t identity) const = 0;

  // The tensors of tree() that methods write, wherever they are. Who places
  // the others places it too.
  virtual WrittenState& written_state() const = 0;

  // What forbids to move the state of this pipeline, one sentence without its
  // end each: a part of it that cannot be seen. Constant.
  virtual const std::vector<std::string>& obstacles() const = 0;

  // The registry of a module of tree() that is a component, a part of one
  // whose residency is its own, or a block; null for others.
  virtual HookRegistry* hooks(size_t module) = 0;

  // Resets every hook registry after an abandoned pass.
  virtual void reset_hooks() = 0;
};

}  // namespace ferry
