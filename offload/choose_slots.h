#pragma once

#include <cstdint>

#include "offload/offload_config.h"
#include "offload/resolved_plan.h"

namespace ferry {

// Slots of rings that are gathered, where the device has room for them. With
// two, a gather begins when the block before the last one has run: all ranks
// then wait for the one that is latest with it, and for its host, at every
// block. With a third one they do so only if it is late by a whole block.
// Nothing else would use the memory: what is gathered has no resident blocks.
inline constexpr int64_t kGatheredSlots = 3;

// Gives the rings that ranks gather so many slots; 0: as many as the backend
// takes. REQUIRES: the policy gathers.
void set_gathered_slots(const OffloadConfig& config, int64_t slots,
                        ResolvedPlan* plan);

}  // namespace ferry
