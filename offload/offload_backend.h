#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "offload/offload_config.h"
#include "offload/offloadable_module.h"

namespace ferry {

// What a backend did since it was enabled.
struct OffloadStats {
  // Copied from host to device.
  int64_t h2d_bytes = 0;
  // Time that compute waited for weights.
  absl::Duration exposed_stall;
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
// Made by get_offload_backend(), one in a worker. Legal to destroy only when
// disabled.
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
};

}  // namespace ferry
