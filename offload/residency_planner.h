#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace ferry {

// Which blocks of a ring stay on the device, and how the others stream.
struct Residency {
  // For each block.
  std::vector<bool> is_resident;
  // 0 when all are resident.
  int slots = 0;
  // Of resident blocks and slots.
  int64_t device_bytes = 0;
};

// All plans are made with the event model of ring_model.h, never with measured
// times: compute is taken as proportional to bytes, and the rate of the link
// as unknown, so that a plan has to be good whether compute or copies take
// longer. Resident blocks are spread out between streamed ones, which is what
// lets copies run beside all of the compute.
//
// `block_bytes`: of the blocks' images, in the order of a pass; not empty.

// Exactly `resident` blocks stay; at most all.
Residency plan_resident_layers(absl::Span<const int64_t> block_bytes,
                               int resident);

// The plan with the shortest passes that fits into `memory_bytes`: all blocks
// if they fit. RESOURCE_EXHAUSTED says what the smallest plan needs.
absl::StatusOr<Residency> plan_memory_budget(
    absl::Span<const int64_t> block_bytes, int64_t memory_bytes);

}  // namespace ferry
