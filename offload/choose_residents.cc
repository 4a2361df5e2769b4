#include "offload/choose_residents.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "offload/residency_planner.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// Blocks of a stack that move by themselves.
std::vector<PlannedBlock*> movable(PlannedStack* stack) {
  std::vector<PlannedBlock*> blocks;
  for (PlannedBlock& block : stack->blocks) {
    if (block.image_bytes > 0) blocks.push_back(&block);
  }
  return blocks;
}

std::vector<int64_t> bytes_of(const std::vector<PlannedBlock*>& blocks) {
  std::vector<int64_t> bytes;
  for (const PlannedBlock* block : blocks) bytes.push_back(block->image_bytes);
  return bytes;
}

void apply(const Residency& residency, const std::vector<PlannedBlock*>& blocks,
           PlannedStack* stack) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i]->resident = residency.is_resident[i];
  }
  stack->slots = residency.slots;
}

std::vector<PlannedStack*> dit_stacks(ResolvedPlan* plan) {
  std::vector<PlannedStack*> stacks;
  for (PlannedComponent& component : plan->components) {
    if (component.role != ComponentRole::kDit) continue;
    for (PlannedStack& stack : component.stacks) {
      if (!movable(&stack).empty()) stacks.push_back(&stack);
    }
  }
  return stacks;
}

int64_t largest_need(const MemoryNeeds& needs) {
  int64_t largest = 0;
  for (const MemoryNeed& need : needs.device) {
    largest = std::max(largest, need.bytes());
  }
  return largest;
}

}  // namespace

absl::Status choose_residents(const OffloadConfig& config,
                              const PreflightOptions& options,
                              std::optional<int64_t> budget_bytes,
                              int64_t rounding_bytes, ResolvedPlan* plan) {
  const std::vector<PlannedStack*> stacks = dit_stacks(plan);
  if (!budget_bytes) {
    for (PlannedStack* stack : stacks) {
      const std::vector<PlannedBlock*> blocks = movable(stack);
      const auto resident = static_cast<int>(std::count_if(
          blocks.begin(), blocks.end(),
          [](const PlannedBlock* block) { return block->resident; }));
      if (resident == 0) continue;
      apply(plan_resident_layers(bytes_of(blocks), resident), blocks, stack);
    }
    return absl::OkStatus();
  }
  int64_t all = 0;
  for (PlannedStack* stack : stacks) {
    for (PlannedBlock* block : movable(stack)) {
      block->resident = true;
      all += block->image_bytes;
    }
  }
  // With all blocks resident, what is beside them?
  const int64_t others =
      largest_need(compute_memory_needs(*plan, config, options)) -
      config.headroom_bytes().value_or(0) - all + rounding_bytes;
  const int64_t left = *budget_bytes - others;
  for (PlannedStack* stack : stacks) {
    const std::vector<PlannedBlock*> blocks = movable(stack);
    int64_t mine = 0;
    for (const PlannedBlock* block : blocks) mine += block->image_bytes;
    const double share = static_cast<double>(mine) / static_cast<double>(all);
    const auto residency = plan_memory_budget(
        bytes_of(blocks),
        static_cast<int64_t>(share * static_cast<double>(left)));
    if (!residency.ok()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "memory budget: ", *budget_bytes, " bytes, of which ", others,
          " are for what is not streamed; ", residency.status().message()));
    }
    apply(*residency, blocks, stack);
  }
  return absl::OkStatus();
}

}  // namespace ferry
