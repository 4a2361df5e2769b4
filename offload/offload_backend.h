#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "offload/offload_config.h"
#include "offload/offload_stats.h"
#include "offload/offloadable_module.h"
#include "offload/resolved_plan.h"
#include "offload/wave_participant.h"

namespace ferry {

// Carries out one strategy on one pipeline, through hooks of its own.
//
//   disabled ──enable() OK──► enabled ──disable() OK──► disabled
//      │                        │
//      └─enable() error─► disabled: no hook of it is left, and the tensors
//                         are ordinary ones, so that it can be tried again
//                               ├─disable() error─► enabled: it keeps what it
//                               │ needs to try again
//                               └─confirm() false─► given up: to be destroyed
//
// If enable() fails and the tensors cannot be given back either, its error
// says so, the backend is enabled, and only disable() is legal.
//
// Made by get_offload_backend(), one in a worker. Destroyed when enabled, it
// gives back what it can; what only the device holds is lost.
//
// Errors: what LibTorch, or the module, throws is an error that names the call,
//   and leaves what any other error leaves.
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

  // Whether what it carries out works and is worth it, now that blocks can run:
  // true where that needed no proof. Else calls `run`, which makes a small
  // request, and false says that there is something better, and why is the
  // group's to say: whoever owns the pipeline then drops it, after this
  // backend, loads it again, and gives it to another backend of the same group.
  // Once after enable(), by all ranks of a group, with the same answer or
  // error. After an error it is only to be destroyed.
  virtual absl::StatusOr<bool> confirm(
      absl::FunctionRef<absl::Status()> /*run*/) {
    return true;
  }

  // Hints for ranks that gather weights together: the denoising loop's next
  // step is its last one, and the weights that it needs are not needed again.
  virtual void begin_last_step() {}
  // A generation has ended, well or not. Must follow every one, since other
  // ranks may wait for what this one was expected to need.
  virtual void end_generation() {}

  // Whether all went well that was given to the device, and to the ranks that
  // gather together, for what was computed so far: nothing else may tell. Who
  // has waited for what he computed asks before he shows it to anybody. After
  // an error the backend is of no use.
  // Blocks until the other ranks have said so of their part, which they do at a
  // pass's end; for the device it does not wait.
  // Not in the middle of a component.
  [[nodiscard]] virtual absl::Status check() { return absl::OkStatus(); }

  // Cheap; does not wait for the device.
  virtual OffloadStats stats() const = 0;
  // What it carries out; null when it is disabled.
  virtual const ResolvedPlan* plan() const = 0;
  // Device memory that was left to activations; 0 when it is disabled.
  virtual int64_t headroom_bytes() const { return 0; }
  // Why this strategy and this residency, with the numbers that decided; one
  // sentence without its end. Empty when it is disabled.
  virtual std::string reason() const = 0;

  // What takes part in the group's waves while it is enabled; null where ranks
  // exchange no weights.
  virtual WaveParticipant* wave_participant() { return nullptr; }
};

}  // namespace ferry
