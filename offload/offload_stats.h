#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace ferry {

// What a backend holds, and did since it was enabled. Zero when disabled.
//
// Times are the device's own: between events before and after what is timed,
// on the stream that does it. The host neither waits for them nor is part of
// them.
struct OffloadStats {
  // State that stays on the device, and that comes and goes.
  int64_t resident_bytes = 0;
  int64_t streamed_bytes = 0;
  // Device memory for both.
  int64_t device_bytes = 0;
  // Host memory for both.
  int64_t host_bytes = 0;
  // Of the ring that has the most.
  int slots = 0;
  // Copied from host to device for blocks and components that come and go.
  int64_t h2d_bytes = 0;
  // Of blocks that the group's ranks put together from their shares.
  int64_t gathered_bytes = 0;
  // Time that the compute stream waited for weights.
  absl::Duration exposed_stall;
  // Of that, before the first block of each pass; at model level all of it.
  absl::Duration first_block_stall;
  // Of h2d_bytes, those of copies that have ended and were timed, and how long
  // these took.
  int64_t timed_h2d_bytes = 0;
  absl::Duration h2d_time;
  // Blocks that were fetched only when they were called.
  int64_t demand_fetches = 0;
  // Outputs that were copied because they were views of a block's weights.
  int64_t cloned_outputs = 0;

  // Rate of the copies while they ran, in 10^9 bytes a second; 0 when unknown.
  double h2d_gbps() const;
  // What was done since `before`, stats of the same backend; what it holds is
  // as it is now.
  OffloadStats since(const OffloadStats& before) const;
};

}  // namespace ferry
