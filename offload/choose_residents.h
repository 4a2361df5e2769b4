#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "offload/offload_config.h"
#include "offload/preflight.h"
#include "offload/resolved_plan.h"

namespace ferry {

// Decides which blocks of DiTs stay on the device, and with how many slots the
// others stream: as many as the plan says, those that make the shortest
// passes; or, with a budget for all weights together, what fits into it, each
// DiT having a share of it by its bytes. See residency_planner.h.
// `rounding_bytes` of the budget are lost to the granularity of allocations.
// RESOURCE_EXHAUSTED says what does not fit.
absl::Status choose_residents(const OffloadConfig& config,
                              const PreflightOptions& options,
                              std::optional<int64_t> budget_bytes,
                              int64_t rounding_bytes, ResolvedPlan* plan);

}  // namespace ferry
