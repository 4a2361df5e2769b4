#include "offload/choose_slots.h"

#include <vector>

namespace ferry {
namespace {

void set_slots(const OffloadConfig& config, int64_t slots,
               std::vector<PlannedComponent>* components) {
  for (PlannedComponent& component : *components) {
    if (config.gathers(component.role)) {
      for (PlannedStack& stack : component.stacks) stack.slots = slots;
    }
    set_slots(config, slots, &component.children);
  }
}

}  // namespace

void choose_gathered_slots(const OffloadConfig& config,
                           absl::FunctionRef<bool(const ResolvedPlan&)> fits,
                           ResolvedPlan* plan) {
  if (config.effective_group_size() == 1) return;
  set_slots(config, kGatheredSlots, &plan->components);
  if (!fits(*plan)) set_slots(config, 0, &plan->components);
}

}  // namespace ferry
