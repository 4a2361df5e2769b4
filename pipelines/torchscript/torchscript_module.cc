#include "pipelines/torchscript/torchscript_module.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "offload/tensor_group.h"
#include "pipelines/torchscript/state_uses.h"
#include "pipelines/torchscript/written_attributes.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// Constants of free functions belong to the root.
void add_constant(const NamedTensor& constant, int64_t number,
                  TorchscriptTree* tree) {
  const at::Tensor& tensor = constant.tensor;
  ModuleTensor entry;
  entry.name = constant.path;
  entry.identity = number;
  entry.storage = number;
  entry.storage_bytes = static_cast<int64_t>(tensor.storage().nbytes());
  entry.bytes = static_cast<int64_t>(tensor.nbytes());
  entry.resident_reason = "is a constant";
  tree->tensors.emplace(number, tensor);
  tree->tree.nodes[0].tensors.push_back(std::move(entry));
}

void add_constants(const std::vector<NamedTensor>& constants,
                   TorchscriptTree* tree) {
  std::set<const void*> known;
  int64_t number = 0;
  for (const auto& [identity, tensor] : tree->tensors) {
    known.insert(tensor.unsafeGetTensorImpl());
    number = std::max(number, identity);
  }
  for (const ModuleNode& node : tree->tree.nodes) {
    for (const ModuleTensor& entry : node.tensors) {
      number = std::max(number, entry.storage);
    }
  }
  for (const NamedTensor& constant : constants) {
    if (known.count(constant.tensor.unsafeGetTensorImpl()) > 0) continue;
    add_constant(constant, ++number, tree);
  }
}

// Notes in the tree what has to stay where it is, and why.
void annotate_uses(const Discovery& discovery, TorchscriptTree* tree) {
  std::vector<BoundModule> bound;
  const auto add = [&](const std::string& path, size_t module) {
    bound.push_back({path, tree->modules[module]});
  };
  for (const DiscoveredComponent& component : discovery.components) {
    add(component.component.path, component.component.module);
    for (const std::vector<FoundBlock>& stack : component.stacks) {
      for (const FoundBlock& block : stack) add(block.path, block.module);
    }
    for (const FoundChild& child : component.children) {
      add(child.path, child.module);
      for (const FoundBlock& block : child.blocks)
        add(block.path, block.module);
    }
  }
  const StateUses uses = find_state_uses(tree->modules[0], bound);
  add_constants(uses.constants, tree);
  for (ModuleNode& node : tree->tree.nodes) {
    for (ModuleTensor& entry : node.tensors) {
      const at::Tensor& tensor = tree->tensors.at(entry.identity);
      // Those of no elements may be given some.
      if (!tensor.has_storage() || tensor.is_meta()) continue;
      const auto use =
          uses.storages.find(tensor.storage().unsafeGetStorageImpl());
      if (use == uses.storages.end()) continue;
      entry.is_written = use->second.use == StateUse::kWritten;
      if (entry.resident_reason.empty()) {
        entry.resident_reason = use->second.reason;
      }
    }
  }
}

AttributeSnapshot read_attributes(const TorchscriptTree& tree) {
  std::set<const void*> known;
  for (const auto& [identity, tensor] : tree.tensors) {
    known.insert(tensor.unsafeGetTensorImpl());
  }
  return {tree.modules[0], [&](const at::Tensor& tensor) {
            return known.count(tensor.unsafeGetTensorImpl()) > 0;
          }};
}

}  // namespace

absl::StatusOr<std::unique_ptr<TorchscriptModule>> TorchscriptModule::create(
    TorchscriptTree tree, const Discovery& discovery) {
  // Before the hook points are there: they would count as uses.
  annotate_uses(discovery, &tree);
  find_written_attributes(&tree);
  AttributeSnapshot attributes = read_attributes(tree);
  std::unique_ptr<TorchscriptModule> module(
      new TorchscriptModule(std::move(tree), std::move(attributes), discovery));
  ASSIGN_OR_RETURN(module->hook_points_, HookPoints::insert(module->targets_));
  return module;
}

TorchscriptModule::TorchscriptModule(TorchscriptTree tree,
                                     AttributeSnapshot attributes,
                                     const Discovery& discovery)
    : tree_(std::move(tree)),
      written_(std::make_unique<WrittenState>(
          written_tensors(tree_.tree,
                          [this](int64_t identity) -> const at::Tensor& {
                            return tensor(identity);
                          }))),
      attributes_(std::move(attributes)) {
  for (const DiscoveredComponent& found : discovery.components) {
    components_.push_back(add_component(found));
  }
  for (const std::string& name : tree_.opaque) {
    obstacles_.push_back(absl::StrCat(name, " is an object of a custom class"));
  }
}

OffloadableComponent TorchscriptModule::add_component(
    const DiscoveredComponent& found) {
  OffloadableComponent component;
  component.path = found.component.path;
  component.role = found.component.role;
  component.module = found.component.module;
  component.hooks = add_target(component.path, component.module);
  component.bytes = tree_.tree.storage_bytes(component.module);
  for (const std::vector<FoundBlock>& blocks : found.stacks) {
    BlockStack stack;
    for (const FoundBlock& block : blocks) {
      stack.blocks.push_back({block.path, block.module,
                              add_target(block.path, block.module),
                              tree_.tree.storage_bytes(block.module)});
    }
    component.stacks.push_back(std::move(stack));
  }
  for (const FoundChild& child : found.children) {
    add_target(child.path, child.module);
    for (const FoundBlock& block : child.blocks) {
      add_target(block.path, block.module);
    }
  }
  return component;
}

// A block that is a component too (a DiT inside another one) has one registry.
HookRegistry* TorchscriptModule::add_target(const std::string& path,
                                            size_t module) {
  std::unique_ptr<HookRegistry>& registry = registries_[module];
  if (registry == nullptr) {
    registry = std::make_unique<HookRegistry>(path);
    targets_.push_back({path, tree_.modules[module], registry.get()});
  }
  return registry.get();
}

HookRegistry* TorchscriptModule::hooks(size_t module) {
  const auto registry = registries_.find(module);
  return registry == registries_.end() ? nullptr : registry->second.get();
}

void TorchscriptModule::keep_state() {
  written_->keep();
  attributes_.keep();
}

absl::Status TorchscriptModule::reset_state() {
  keep_state();
  // What attributes hold goes first: it may be large, and be memory of the
  // device.
  RETURN_IF_ERROR(attributes_.restore());
  return written_->reset();
}

void TorchscriptModule::reset_hooks() {
  for (const auto& [module, registry] : registries_) registry->reset_state();
}

}  // namespace ferry
