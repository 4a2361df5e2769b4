#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "offload/offloadable_module.h"
#include "pipelines/torchscript/component_discovery.h"
#include "pipelines/torchscript/hook_points.h"

namespace ferry {

// OffloadableModule over discovered components: one hook registry for each
// component root and block, reached through hook points.
//
// Ownership: owns the registries and the hook points.
// Threads: not thread-safe; confined to the worker's step thread.
class TorchscriptModule : public OffloadableModule {
 public:
  // Inserts the hook points; errors as HookPoints::insert().
  static absl::StatusOr<std::unique_ptr<TorchscriptModule>> create(
      const Discovery& discovery);

  const std::vector<OffloadableComponent>& components() const override {
    return components_;
  }
  void reset_hooks() override;

 private:
  TorchscriptModule() = default;

  // Makes the registry of one module.
  HookRegistry* add_target(const ModuleAtPath& module);

  std::vector<std::unique_ptr<HookRegistry>> registries_;
  std::vector<HookTarget> targets_;
  std::vector<OffloadableComponent> components_;
  // Destroyed first: refers to the registries.
  std::unique_ptr<HookPoints> hook_points_;
};

}  // namespace ferry
