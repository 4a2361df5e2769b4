#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace ferry {

// A ring whose memory is to be planned.
struct RingNeeds {
  // Of the blocks' images, in the order of a pass; not empty, all positive.
  std::vector<int64_t> block_bytes;
  // So many blocks stay; at most all. Unset: those that shorten passes most.
  std::optional<int> resident;
  // Slots at most. With 2 a copy runs beside a block; with 3 unequal blocks
  // even out. More buy nothing that a resident block would not do better.
  int most_slots = 3;
  // Blocks may run inside of others: any two have to fit at the same time.
  bool nests = false;
  // Passes over the ring in a request: what its time counts beside others'.
  double passes = 1;
};

// Which blocks of a ring stay on the device, and how the others stream.
struct Residency {
  // For each block.
  std::vector<bool> is_resident;
  // 0 when all are resident.
  int slots = 0;
  // Of resident blocks and slots (slot_layout.h); saturated.
  int64_t device_bytes = 0;
};

// How long the passes of a request take, in an unknown unit: compute is taken
// as proportional to bytes, and the rate of the link as unknown, so that a plan
// has to be good whether compute or copies take longer. From the event model of
// ring_model.h, never from measured times.
double modelled_time(const RingNeeds& ring, const Residency& residency);

// The least memory that any plan of the ring needs.
int64_t least_bytes(const RingNeeds& ring);

// For each ring a plan, so that all fit into `memory_bytes` together, and their
// modelled times add up to as little as can be. Each ring has its minimum
// first: one slot. What one ring has no use for, the others get. Resident
// blocks are spread out between streamed ones, which is what lets copies run
// beside all of the compute. Takes time in proportion to the blocks.
// RESOURCE_EXHAUSTED, if and only if the sum of least_bytes() does not fit.
absl::StatusOr<std::vector<Residency>> plan_residency(
    absl::Span<const RingNeeds> rings, int64_t memory_bytes);

}  // namespace ferry
