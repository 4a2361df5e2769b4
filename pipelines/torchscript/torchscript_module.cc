#include "pipelines/torchscript/torchscript_module.h"

#include "platform/base/status_macros.h"

namespace ferry {

absl::StatusOr<std::unique_ptr<TorchscriptModule>> TorchscriptModule::create(
    TorchscriptTree tree, const Discovery& discovery) {
  std::unique_ptr<TorchscriptModule> module(
      new TorchscriptModule(std::move(tree)));
  for (const DiscoveredComponent& found : discovery.components) {
    module->components_.push_back(module->add_component(found));
  }
  ASSIGN_OR_RETURN(module->hook_points_, HookPoints::insert(module->targets_));
  return module;
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

void TorchscriptModule::reset_hooks() {
  for (const auto& [module, registry] : registries_) registry->reset_state();
}

}  // namespace ferry
