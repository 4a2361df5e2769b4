#include "tests/benchmarks/timed_module.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "offload/forward_output.h"
#include "platform/base/clock.h"
#include "platform/base/status_macros.h"
#include "platform/base/testing/wait_until.h"

namespace ferry {
namespace {

constexpr char kDit[] = "transformer";

// A pre_forward() that takes longer has waited for the block's weights.
constexpr absl::Duration kLongestBind = absl::Microseconds(50);

// What a block returns: nothing.
class NoOutput final : public ForwardOutput {
 public:
  bool any_tensor(
      absl::FunctionRef<bool(const at::Tensor&)> /*predicate*/) const override {
    return false;
  }
  void replace_tensors(absl::FunctionRef<at::Tensor(const at::Tensor&)>
                       /*function*/) override {}
};

}  // namespace

void compute_for(absl::Duration duration) {
  const absl::Duration end = Clock::real().monotonic() + duration;
  while (Clock::real().monotonic() < end) {
  }
}

TimedModule::TimedModule(std::vector<TimedBlock> blocks, int tensors_per_block,
                         ComputeKind compute)
    : blocks_(std::move(blocks)), compute_kind_(compute) {
  tree_.nodes.emplace_back();
  hooks_.push_back(nullptr);
  tree_.declarations.emplace().dit_modules = {kDit};
  tree_.plan.emplace().block_attrs[kDit] = {"blocks"};
  tree_.plan->resident_dit_paths = {kDit};
  OffloadableComponent dit;
  dit.path = kDit;
  dit.role = ComponentRole::kDit;
  dit.module = add_module(0, kDit);
  dit.hooks = hooks_[dit.module].get();
  const size_t list = add_module(dit.module, "blocks");
  tree_.nodes[list].is_list = true;
  BlockStack& stack = dit.stacks.emplace_back();
  for (size_t b = 0; b < blocks_.size(); ++b) {
    OffloadableBlock block;
    block.path = absl::StrCat(kDit, ".blocks.", b);
    block.module = add_module(list, absl::StrCat(b));
    block.hooks = hooks_[block.module].get();
    block.bytes = blocks_[b].bytes;
    for (int t = 0; t < tensors_per_block; ++t) {
      add_tensor(block.module, absl::StrCat("weight_", t),
                 block.bytes / tensors_per_block);
    }
    dit.bytes += block.bytes;
    stack.blocks.push_back(std::move(block));
  }
  components_.push_back(std::move(dit));
}

size_t TimedModule::add_module(size_t parent, const std::string& name) {
  const size_t index = tree_.nodes.size();
  tree_.nodes.emplace_back();
  tree_.nodes[parent].children.emplace_back(name, index);
  hooks_.push_back(std::make_unique<HookRegistry>(name));
  return index;
}

void TimedModule::add_tensor(size_t module, const std::string& name,
                             int64_t bytes) {
  ModuleTensor entry;
  entry.name = name;
  entry.identity = static_cast<int64_t>(tensors_.size());
  entry.storage = entry.identity;
  entry.storage_bytes = bytes;
  entry.bytes = bytes;
  entry.is_parameter = true;
  tensors_.push_back(at::full({bytes}, 1, at::kByte));
  tree_.nodes[module].tensors.push_back(std::move(entry));
}

absl::Status TimedModule::run_pass(
    absl::FunctionRef<void(absl::Duration)> on_block) {
  const Clock& clock = Clock::real();
  NoOutput output;
  OffloadableComponent& dit = components_[0];
  RETURN_IF_ERROR(dit.hooks->pre_forward());
  for (size_t b = 0; b < blocks_.size(); ++b) {
    HookRegistry& hooks = *dit.stacks[0].blocks[b].hooks;
    const absl::Duration start = clock.monotonic();
    RETURN_IF_ERROR(hooks.pre_forward());
    const absl::Duration bound = clock.monotonic();
    compute(blocks_[b], start, bound);
    const absl::Duration computed = clock.monotonic();
    RETURN_IF_ERROR(hooks.post_forward(output));
    on_block(clock.monotonic() - computed + (bound - start));
  }
  return dit.hooks->post_forward(output);
}

void TimedModule::compute(const TimedBlock& block, absl::Duration called,
                          absl::Duration returned) {
  if (compute_kind_ == ComputeKind::kBusy) return compute_for(block.compute);
  const bool has_waited = returned - called > kLongestBind;
  const absl::Duration begin =
      has_waited ? std::max(returned, computed_at_) : computed_at_;
  computed_at_ = begin + block.compute;
  wait_until(computed_at_);
}

void TimedModule::reset_hooks() {
  for (const auto& hooks : hooks_) {
    if (hooks != nullptr) hooks->reset_state();
  }
}

}  // namespace ferry
