#include "offload/choose_residents.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "offload/component_role.h"
#include "offload/residency_planner.h"
#include "platform/base/saturating_math.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// Passes of a DiT in a request: one for each step, where all others run once.
constexpr double kSteps = 20;

// A ring and its needs.
struct PlannedRing {
  PlannedStack* stack = nullptr;
  // Those of its blocks that move by themselves.
  std::vector<PlannedBlock*> blocks;
  RingNeeds needs;

  bool has_residents() const {
    return !needs.resident.has_value() || *needs.resident > 0;
  }
};

// Does the work of choose_residents().
class ResidentChooser {
 public:
  ResidentChooser(const OffloadConfig& config, const PreflightOptions& options,
                  const ResidencyLimits& limits, ResolvedPlan* plan)
      : config_(config), options_(options), limits_(limits), plan_(plan) {}

  absl::Status run() {
    for (PlannedComponent& component : plan_->components) {
      add_rings(component.role == ComponentRole::kDit, &component);
    }
    if (!limits_.budget_bytes) {
      RETURN_IF_ERROR(take_ample_memory());
      if (weight_bytes() <= device_bytes()) return absl::OkStatus();
    }
    return share_memory();
  }

 private:
  // `keeps`: with a budget, the blocks of the component's own rings may stay.
  void add_rings(bool keeps, PlannedComponent* component) {
    if (config_.gathers(component->role)) return;
    for (PlannedStack& stack : component->stacks) {
      PlannedRing ring;
      ring.stack = &stack;
      int resident = 0;
      for (PlannedBlock& block : stack.blocks) {
        if (block.image_bytes == 0) continue;
        ring.blocks.push_back(&block);
        ring.needs.block_bytes.push_back(block.image_bytes);
        if (block.resident) ++resident;
      }
      if (ring.blocks.empty()) continue;
      const bool chooses = keeps && limits_.budget_bytes.has_value();
      if (!chooses) ring.needs.resident = resident;
      if (!ring.has_residents()) {
        ring.needs.most_slots = static_cast<int>(options_.slots);
      }
      ring.needs.nests = stack.nests;
      if (component->role == ComponentRole::kDit) ring.needs.passes = kSteps;
      rings_.push_back(std::move(ring));
    }
    for (PlannedComponent& child : component->children) {
      add_rings(false, &child);
    }
  }

  // As if the device had memory for everything.
  absl::Status take_ample_memory() {
    constexpr int64_t kAmple = std::numeric_limits<int64_t>::max();
    for (PlannedRing& ring : rings_) {
      if (!ring.has_residents()) continue;
      ASSIGN_OR_RETURN(const std::vector<Residency> residency,
                       plan_residency({ring.needs}, kAmple));
      apply(residency[0], ring);
    }
    return absl::OkStatus();
  }

  absl::Status share_memory() {
    int64_t least = 0;
    std::vector<RingNeeds> needs;
    for (const PlannedRing& ring : rings_) {
      least = saturating_add(least, least_bytes(ring.needs));
      needs.push_back(ring.needs);
    }
    const int64_t others = other_bytes();
    const int64_t memory =
        std::min(device_bytes(), limits_.budget_bytes.value_or(device_bytes()));
    if (limits_.budget_bytes &&
        saturating_add(others, least) > *limits_.budget_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "memory budget: ", *limits_.budget_bytes, " bytes, of which ", others,
          " are for what is not streamed; the blocks need at least ", least,
          " bytes of device memory"));
    }
    ASSIGN_OR_RETURN(const std::vector<Residency> plans,
                     plan_residency(needs, std::max(memory - others, least)));
    for (size_t r = 0; r < rings_.size(); ++r) apply(plans[r], rings_[r]);
    return absl::OkStatus();
  }

  static void apply(const Residency& residency, const PlannedRing& ring) {
    for (size_t i = 0; i < ring.blocks.size(); ++i) {
      ring.blocks[i]->resident = residency.is_resident[i];
    }
    ring.stack->slots = residency.slots;
  }

  int64_t headroom() const { return config_.headroom_bytes().value_or(0); }
  // For weights; negative where the headroom alone does not fit.
  int64_t device_bytes() const { return limits_.device_bytes - headroom(); }

  // What the plan needs as it is, without what is left to activations.
  int64_t weight_bytes() const {
    int64_t largest = 0;
    for (const MemoryNeed& need :
         compute_memory_needs(*plan_, config_, options_).device) {
      largest = std::max(largest, need.bytes());
    }
    return saturating_add(largest - headroom(), limits_.rounding_bytes);
  }

  // Of what is beside the rings: found with all of their blocks resident.
  int64_t other_bytes() {
    int64_t blocks = 0;
    for (PlannedRing& ring : rings_) {
      const Residency all = {std::vector<bool>(ring.blocks.size(), true), 0, 0};
      apply(all, ring);
      for (const int64_t bytes : ring.needs.block_bytes) {
        blocks = saturating_add(blocks, bytes);
      }
    }
    return weight_bytes() - blocks;
  }

  const OffloadConfig& config_;
  const PreflightOptions& options_;
  const ResidencyLimits& limits_;
  ResolvedPlan* const plan_;
  std::vector<PlannedRing> rings_;
};

}  // namespace

absl::Status choose_residents(const OffloadConfig& config,
                              const PreflightOptions& options,
                              const ResidencyLimits& limits,
                              ResolvedPlan* plan) {
  return ResidentChooser(config, options, limits, plan).run();
}

}  // namespace ferry
