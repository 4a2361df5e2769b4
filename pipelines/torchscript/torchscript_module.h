#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "offload/module_discovery.h"
#include "offload/offloadable_module.h"
#include "offload/written_state.h"
#include "pipelines/torchscript/attribute_snapshot.h"
#include "pipelines/torchscript/hook_points.h"
#include "pipelines/torchscript/module_tree_reader.h"

namespace ferry {

// OffloadableModule over discovered components: one hook registry for each
// component root, child and block, reached through hook points.
//
// Ownership: owns the registries and the hook points.
// Threads: not thread-safe; confined to the worker's step thread.
class TorchscriptModule : public OffloadableModule {
 public:
  // Finds out how the methods use their state, and inserts the hook points;
  // errors as HookPoints::insert().
  static absl::StatusOr<std::unique_ptr<TorchscriptModule>> create(
      TorchscriptTree tree, const Discovery& discovery);

  const std::vector<OffloadableComponent>& components() const override {
    return components_;
  }
  const ModuleTree& tree() const override { return tree_.tree; }
  const at::Tensor& tensor(int64_t identity) const override {
    return tree_.tensors.at(identity);
  }
  const std::vector<std::string>& obstacles() const override {
    return obstacles_;
  }
  WrittenState& written_state() const override { return *written_; }
  HookRegistry* hooks(size_t module) override;
  void reset_hooks() override;

  // Remembers what the package holds; before any method runs.
  void keep_state();
  // Brings it back: all that methods have written, be it tensors, attributes or
  // what is in lists and dicts. The device's errors; throws what LibTorch
  // throws.
  absl::Status reset_state();

 private:
  TorchscriptModule(TorchscriptTree tree, AttributeSnapshot attributes,
                    const Discovery& discovery);

  // Makes the registry of a module, once.
  HookRegistry* add_target(const std::string& path, size_t module);
  OffloadableComponent add_component(const DiscoveredComponent& found);

  const TorchscriptTree tree_;
  const std::unique_ptr<WrittenState> written_;
  AttributeSnapshot attributes_;
  // By module.
  std::map<size_t, std::unique_ptr<HookRegistry>> registries_;
  std::vector<HookTarget> targets_;
  std::vector<OffloadableComponent> components_;
  std::vector<std::string> obstacles_;
  // Destroyed first: refers to the registries.
  std::unique_ptr<HookPoints> hook_points_;
};

}  // namespace ferry
