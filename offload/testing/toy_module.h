#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "offload/forward_output.h"
#include "offload/hook_registry.h"
#include "offload/module_tree.h"
#include "offload/offloadable_module.h"
#include "offload/written_state.h"

namespace ferry {

// Columns of what passes through a component.
inline constexpr int64_t kToyWidth = 32;

// What a method returns, as a list of tensors.
class TensorListOutput final : public ForwardOutput {
 public:
  explicit TensorListOutput(std::vector<at::Tensor> tensors)
      : tensors_(std::move(tensors)) {}

  bool any_tensor(
      absl::FunctionRef<bool(const at::Tensor&)> predicate) const override;
  void replace_tensors(
      absl::FunctionRef<at::Tensor(const at::Tensor&)> function) override;

  const at::Tensor& at(size_t index) const { return tensors_[index]; }

 private:
  std::vector<at::Tensor> tensors_;
};

struct ToyOptions {
  int dits = 1;
  int encoders = 0;
  int vaes = 0;
  // Of each DiT and encoder; VAEs have none.
  int blocks = 4;
  // Of a child of each DiT, whose residency is its own; 0 without a child.
  int child_blocks = 0;
  // Components count their passes: state that is written.
  bool counts = true;
  // Blocks return a view of their bias too, which is used after the last one.
  bool returns_views = false;
  // The first two components hold one tensor, and so do the first two blocks
  // of each.
  bool shares = false;
};

// A pipeline in plain C++: components whose blocks multiply and add, behind
// hook registries. Equal options make equal pipelines.
class ToyModule final : public OffloadableModule {
 public:
  explicit ToyModule(const ToyOptions& options);
  ToyModule(const ToyModule&) = delete;
  ToyModule& operator=(const ToyModule&) = delete;

  const std::vector<OffloadableComponent>& components() const override {
    return components_;
  }
  const ModuleTree& tree() const override { return tree_; }
  const at::Tensor& tensor(int64_t identity) const override {
    return tensors_[static_cast<size_t>(identity)];
  }
  const std::vector<std::string>& obstacles() const override {
    return obstacles_;
  }
  WrittenState& written_state() const override;
  HookRegistry* hooks(size_t module) override;
  void reset_hooks() override;

  // A pass of a component over its blocks, in the order given, or in theirs.
  // After an error the hooks are reset.
  absl::StatusOr<at::Tensor> run(size_t component, const at::Tensor& x,
                                 const std::vector<size_t>& order);
  absl::StatusOr<at::Tensor> run(size_t component, const at::Tensor& x);
  // Enters a component and a block of it, and abandons the pass there.
  absl::Status abandon(size_t component, size_t block);

  // Each block takes so long at least.
  void set_block_time(absl::Duration time) { block_time_ = time; }

  // Every tensor that it holds, once.
  const std::vector<at::Tensor>& all_tensors() const { return tensors_; }
  // Names of all hooks.
  std::vector<std::string> hook_names() const;
  // Adds a tensor to the module at a path, before it is offloaded.
  void add_tensor(const std::string& path, const std::string& name,
                  const at::Tensor& tensor, const std::string& reason = "",
                  bool is_written = false);
  void add_obstacle(const std::string& text) { obstacles_.push_back(text); }

 private:
  // A module below another one; its index.
  size_t add_module(size_t parent, const std::string& name);
  HookRegistry* add_registry(size_t module, const std::string& path);
  // What methods read.
  const at::Tensor& read(size_t module, size_t index) const {
    return tensors_[static_cast<size_t>(
        tree_.nodes[module].tensors[index].identity)];
  }
  void add_tensor(size_t module, const std::string& name,
                  const at::Tensor& tensor, const std::string& reason = "",
                  bool is_written = false);
  void add_component(const std::string& name, ComponentRole role, int blocks);
  // Blocks of a module, in a list of this name.
  std::vector<OffloadableBlock> add_blocks(size_t module,
                                           const std::string& path,
                                           const std::string& list, int count);
  // Runs a block; appends a view of its weights.
  absl::StatusOr<at::Tensor> run_block(const OffloadableBlock& block,
                                       const at::Tensor& x,
                                       std::vector<at::Tensor>* views);
  absl::StatusOr<at::Tensor> run_hooked(const OffloadableComponent& component,
                                        at::Tensor x,
                                        const std::vector<size_t>& order);

  const ToyOptions options_;
  absl::Duration block_time_;
  ModuleTree tree_;
  // By identity.
  std::vector<at::Tensor> tensors_;
  // Null until it is asked for.
  mutable std::unique_ptr<WrittenState> written_;
  // By module.
  std::map<size_t, std::unique_ptr<HookRegistry>> registries_;
  std::vector<OffloadableComponent> components_;
  // Blocks of the children of DiTs, by the DiT's module.
  std::map<size_t, std::vector<OffloadableBlock>> child_blocks_;
  std::vector<std::string> obstacles_;
};

}  // namespace ferry
