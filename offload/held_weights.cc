#include "offload/held_weights.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "platform/base/saturating_math.h"

namespace ferry {
namespace {

// So many reasons are in a sentence.
constexpr size_t kMostReasons = 3;

// What of a plan moves, and what could.
struct Movers {
  // Of blocks that are streamed, and of components that take turns.
  std::set<size_t> modules;
  // Whether any block, streamed or not, or such a component has weights.
  bool have_weights = false;
};

void add_movers(const PlannedComponent& component, Movers* movers) {
  if (component.takes_turns) {
    movers->modules.insert(component.module);
    movers->have_weights |= component.image_bytes > 0;
  }
  for (const PlannedStack& stack : component.stacks) {
    for (const PlannedBlock& block : stack.blocks) {
      if (!block.resident) movers->modules.insert(block.module);
      movers->have_weights |= block.image_bytes > 0;
    }
  }
  for (const PlannedComponent& child : component.children) {
    add_movers(child, movers);
  }
}

Movers movers_of(const ResolvedPlan& plan) {
  Movers movers;
  for (const PlannedComponent& component : plan.components) {
    add_movers(component, &movers);
  }
  return movers;
}

}  // namespace

std::vector<HeldWeights> find_held_weights(const ResolvedPlan& plan) {
  const Movers movers = movers_of(plan);
  std::vector<HeldWeights> held;
  for (const StoragePlacement& placement : plan.storages) {
    if (placement.claimant && movers.modules.count(*placement.claimant) > 0) {
      held.push_back({placement.name, placement.bytes, placement.reason});
    }
  }
  for (const PlannedComponent& component : plan.components) {
    if (component.held_reason.empty() || component.bytes == 0) continue;
    held.push_back({component.path, component.bytes, component.held_reason});
  }
  std::stable_sort(held.begin(), held.end(),
                   [](const HeldWeights& a, const HeldWeights& b) {
                     return a.bytes > b.bytes;
                   });
  return held;
}

int64_t total_bytes(const std::vector<HeldWeights>& held) {
  int64_t bytes = 0;
  for (const HeldWeights& weights : held) {
    bytes = saturating_add(bytes, weights.bytes);
  }
  return bytes;
}

std::optional<std::string> explain_no_movement(const ResolvedPlan& plan) {
  if (movers_of(plan).have_weights) return std::nullopt;
  std::vector<HeldWeights> held = find_held_weights(plan);
  if (held.empty()) return std::nullopt;
  std::string text =
      "nothing is streamed, although the policy asks for it, and all weights "
      "stay on the device: ";
  const size_t named = std::min(held.size(), kMostReasons);
  for (size_t i = 0; i < named; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "; ", held[i].path, " (",
                    held[i].bytes, " bytes) ", held[i].reason);
  }
  if (named == held.size()) return text;
  held.erase(held.begin(), held.begin() + static_cast<ptrdiff_t>(named));
  absl::StrAppend(&text, "; and ", held.size(), " more, ", total_bytes(held),
                  " bytes");
  return text;
}

}  // namespace ferry
