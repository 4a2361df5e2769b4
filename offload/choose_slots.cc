#include "offload/choose_slots.h"

#include <vector>

#include "offload/component_role.h"

namespace ferry {
namespace {

void set_slots(const OffloadConfig& config, int64_t slots,
               std::vector<PlannedComponent>* components) {
  for (PlannedComponent& component : *components) {
    const bool is_gathered =
        config.uses_allgather(component.role == ComponentRole::kTextEncoder
                                  ? OffloadComponent::kTextEncoder
                                  : OffloadComponent::kDit);
    for (PlannedStack& stack : component.stacks) {
      if (is_gathered) stack.slots = slots;
    }
    set_slots(config, slots, &component.children);
  }
}

}  // namespace

void set_gathered_slots(const OffloadConfig& config, int64_t slots,
                        ResolvedPlan* plan) {
  set_slots(config, slots, &plan->components);
}

}  // namespace ferry
