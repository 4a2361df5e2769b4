#include "pipelines/torchscript/torchscript_module.h"

#include <algorithm>
#include <utility>

#include "platform/base/status_macros.h"

namespace ferry {

absl::StatusOr<std::unique_ptr<TorchscriptModule>> TorchscriptModule::create(
    const Discovery& discovery) {
  std::unique_ptr<TorchscriptModule> module(new TorchscriptModule);
  for (const DiscoveredComponent& found : discovery.components) {
    OffloadableComponent component;
    component.path = found.path;
    component.role = found.role;
    component.hooks = module->add_target({found.path, found.module});
    component.bytes = count_bytes(found.module);
    for (const std::vector<ModuleAtPath>& blocks : found.stacks) {
      BlockStack stack;
      for (const ModuleAtPath& block : blocks) {
        stack.blocks.push_back(
            {block.path, module->add_target(block), count_bytes(block.module)});
      }
      component.stacks.push_back(std::move(stack));
    }
    module->components_.push_back(std::move(component));
  }
  ASSIGN_OR_RETURN(module->hook_points_, HookPoints::insert(module->targets_));
  return module;
}

// A block that is a component too (a DiT inside another one) has one registry.
HookRegistry* TorchscriptModule::add_target(const ModuleAtPath& module) {
  const auto known = std::find_if(
      targets_.begin(), targets_.end(), [&](const HookTarget& target) {
        return target.module._ivalue() == module.module._ivalue();
      });
  if (known != targets_.end()) return known->hooks;
  registries_.push_back(std::make_unique<HookRegistry>(module.path));
  targets_.push_back({module.path, module.module, registries_.back().get()});
  return targets_.back().hooks;
}

void TorchscriptModule::reset_hooks() {
  for (const auto& registry : registries_) registry->reset_state();
}

}  // namespace ferry
