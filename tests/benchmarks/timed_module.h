#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "offload/hook_registry.h"
#include "offload/module_tree.h"
#include "offload/offloadable_module.h"
#include "offload/written_state.h"

namespace ferry {

// A block of a TimedModule.
struct TimedBlock {
  // Of its weights; a multiple of 256.
  int64_t bytes = 0;
  // How long it computes, by the clock.
  absl::Duration compute;
};

// Where blocks compute.
enum class ComputeKind {
  // On the thread that runs them, which is busy.
  kBusy,
  // Elsewhere, as on a GPU, and the thread waits: many ranks can do it at a
  // time, on few cores. A block begins when the one before it has ended, by set
  // times, or when its weights came, if the thread had to wait for them: on a
  // GPU, too, a thread that wakes late delays nothing.
  kElsewhere,
};

// Busy until so much time has passed.
void compute_for(absl::Duration duration);

// A DiT whose blocks hold so many bytes and compute so long, for measuring what
// is around them. A pass allocates nothing.
//
// Threads: not thread-safe.
class TimedModule final : public OffloadableModule {
 public:
  // `tensors_per_block` share a block's bytes evenly.
  TimedModule(std::vector<TimedBlock> blocks, int tensors_per_block,
              ComputeKind compute = ComputeKind::kBusy);
  TimedModule(const TimedModule&) = delete;
  TimedModule& operator=(const TimedModule&) = delete;

  // One pass over the blocks, with their hooks.
  absl::Status run_pass() {
    return run_pass([](absl::Duration) {});
  }
  // The same; tells for each block how long the host was in its hooks.
  absl::Status run_pass(absl::FunctionRef<void(absl::Duration)> on_block);

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
  WrittenState& written_state() const override { return *written_; }
  HookRegistry* hooks(size_t module) override { return hooks_[module].get(); }
  void reset_hooks() override;

 private:
  // A module below another one, with hooks of its own; its index.
  size_t add_module(size_t parent, const std::string& name);
  void add_tensor(size_t module, const std::string& name, int64_t bytes);
  // A block whose pre_forward() was called and returned at these times.
  void compute(const TimedBlock& block, absl::Duration called,
               absl::Duration returned);

  const std::vector<TimedBlock> blocks_;
  const ComputeKind compute_kind_;
  const std::vector<std::string> obstacles_;
  ModuleTree tree_;
  // By identity.
  std::vector<at::Tensor> tensors_;
  // Nothing.
  const std::unique_ptr<WrittenState> written_ =
      std::make_unique<WrittenState>();
  // By module.
  std::vector<std::unique_ptr<HookRegistry>> hooks_;
  std::vector<OffloadableComponent> components_;
  // kElsewhere: when the last block has ended.
  absl::Duration computed_at_;
};

}  // namespace ferry
