#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "offload/offload_config.h"
#include "offload/resolved_plan.h"

namespace ferry {

// Slots of rings that are gathered, where the device has room for them. With
// two, a gather begins when the block before the last one has run: all ranks
// then wait for the one that is latest with it, and for its host, at every
// block. With a third one they do so only if it is late by a whole block.
// Nothing else would use the memory: what is gathered has no resident blocks.
inline constexpr int64_t kGatheredSlots = 3;

// Gives the rings that ranks gather so many slots, if the plan fits then; else
// 0, which is as many as the backend takes. All ranks decide the same if `fits`
// does.
void choose_gathered_slots(const OffloadConfig& config,
                           absl::FunctionRef<bool(const ResolvedPlan&)> fits,
                           ResolvedPlan* plan);

}  // namespace ferry
