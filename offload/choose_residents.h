#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "offload/offload_config.h"
#include "offload/preflight.h"
#include "offload/resolved_plan.h"

namespace ferry {

// Device memory for a plan.
struct ResidencyLimits {
  // All that is free.
  int64_t device_bytes = 0;
  // For all weights together; set: as many blocks of DiTs stay as fit.
  std::optional<int64_t> budget_bytes;
  // Of either, lost to the granularity of allocations.
  int64_t rounding_bytes = 0;
};

// Decides which blocks of DiTs stay on the device, and with how many slots each
// ring that is not gathered streams the others: see residency_planner.h. With a
// budget, all rings share what is left of it beside other weights. Without one,
// as many blocks stay as the plan says; a ring has options.slots slots, or
// those that make its passes shortest if some of its blocks stay, and fewer
// where the device has no room for them: down to one, with which copies and
// compute take turns.
//
// RESOURCE_EXHAUSTED says what the budget does not hold. What the device does
// not hold, check_memory_needs() refuses: then the plan is the smallest one.
absl::Status choose_residents(const OffloadConfig& config,
                              const PreflightOptions& options,
                              const ResidencyLimits& limits,
                              ResolvedPlan* plan);

}  // namespace ferry
