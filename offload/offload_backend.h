#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "offload/offload_config.h"
#include "offload/offloadable_module.h"
#include "offload/resolved_plan.h"

namespace ferry {

// What a backend holds, and did since it was enabled. Zero when disabled.
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
  // Time that compute waited for weights.
  absl::Duration exposed_stall;
  // Blocks that were fetched only when they were called.
  int64_t demand_fetches = 0;
  // Outputs that were copied because they were views of a block's weights.
  int64_t cloned_outputs = 0;
};

// Carries out one strategy on one pipeline, through hooks of its own.
//
//   disabled ──enable() OK──► enabled ──disable() OK──► disabled
//      │                        │
//      └─enable() error─► disabled: no hook of it is left, and the tensors
//                         are ordinary ones, so that it can be tried again
//                               └─disable() error─► enabled: it keeps what it
//                                 needs to try again
//
// If enable() fails and the tensors cannot be given back either, its error
// says so, the backend is enabled, and only disable() is legal.
//
// Made by get_offload_backend(), one in a worker. Destroyed when enabled, it
// gives back what it can; what only the device holds is lost.
//
// Ownership: the worker owns it; the module outlives it.
// Threads: not thread-safe; confined to the worker's step thread.
class OffloadBackend {
 public:
  virtual ~OffloadBackend() = default;

  virtual OffloadStrategy strategy() const = 0;

  // Places all weights and installs the hooks. When it is enabled already:
  // FAILED_PRECONDITION, and nothing changes.
  virtual absl::Status enable(OffloadableModule& module) = 0;
  // Removes its own hooks and resources; does not restore the placement from
  // before enable(). When it is disabled already: OK, and nothing changes.
  virtual absl::Status disable() = 0;
  virtual bool is_enabled() const = 0;

  virtual OffloadStats stats() const = 0;
  // What it carries out; null when it is disabled.
  virtual const ResolvedPlan* plan() const = 0;
};

}  // namespace ferry
