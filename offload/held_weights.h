#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/resolved_plan.h"

namespace ferry {

// Weights that stay on the device although the policy would have moved them.
struct HeldWeights {
  // Dotted path of a tensor, or of a component that stays as a whole.
  std::string path;
  int64_t bytes = 0;
  // Why they stay, such as "is written by aten::add_".
  std::string reason;
};

// Each storage and component of a plan that is held, the largest first. What
// stays because a budget or a number of resident blocks says so is not held.
std::vector<HeldWeights> find_held_weights(const ResolvedPlan& plan);

// Bytes of all of them; saturated (saturating_math.h).
int64_t total_bytes(const std::vector<HeldWeights>& held);

// A sentence for a plan that was to move weights and moves none, with the
// reasons of the largest ones. Nothing if some may move.
std::optional<std::string> explain_no_movement(const ResolvedPlan& plan);

}  // namespace ferry
