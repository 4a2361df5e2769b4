#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "offload/offload_config.h"
#include "offload/resolved_plan.h"

namespace ferry {

// A part of what is needed, such as "slots of transformer".
struct MemoryItem {
  std::string what;
  int64_t bytes = 0;
};

// What has to be there at the same time.
struct MemoryNeed {
  // "encode_prompt", "denoise" or "decode"; of the host "host".
  std::string phase;
  std::vector<MemoryItem> items;

  // Saturated (saturating_math.h).
  int64_t bytes() const;
};

struct MemoryNeeds {
  // One for each phase of a request, in order.
  std::vector<MemoryNeed> device;
  MemoryNeed host;
};

struct PreflightOptions {
  // Device slots of a ring; never more than it has streamed blocks.
  int64_t slots = 2;
  // Slots of a group that gathers, for a rank's share of a block.
  int64_t shard_slots = 2;
};

struct MemoryLimits {
  int64_t device_free_bytes = 0;
  int64_t host_available_bytes = 0;
  // What limits the host, such as "MemAvailable".
  std::string host_limited_by;
};

// What the weights of a plan need, before any is moved: images of resident
// state, slots of rings (rings that are gathered share theirs), the largest of
// the components that take turns, and the policy's headroom for activations.
// All of it is reserved once, and so it counts in every phase. On the host
// every image once, in whole pages, and the largest once more, since the
// tensors that are being packed are there too; a rank's share of those that are
// gathered.
MemoryNeeds compute_memory_needs(const ResolvedPlan& plan,
                                 const OffloadConfig& config,
                                 const PreflightOptions& options);

// RESOURCE_EXHAUSTED names every phase that does not fit, its parts, and what
// there is.
absl::Status check_memory_needs(const MemoryNeeds& needs,
                                const MemoryLimits& limits);

}  // namespace ferry
