#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "platform/device/simulated/simulated_device_options.h"

namespace ferry {

// The usual way to stream with resident blocks, to compare with: the first
// blocks stay, and each streamed block is copied while the one before it
// computes, through two slots.
struct LeadingPolicy {
  int blocks = 0;
  int resident = 0;
  // Of a block.
  int64_t bytes = 0;
  absl::Duration compute;
};

// Mean time of a pass, after a warm one.
absl::StatusOr<absl::Duration> leading_pass_time(
    const LeadingPolicy& policy, const SimulatedDeviceOptions& device,
    int passes);

}  // namespace ferry
