#pragma once

namespace ferry {

// Life of a worker group, all its ranks together.
//
//   kStarting ──► kLoading ──► kReady ──► kStopping ──► kStopped
//       │            │           │            ▲
//       ├────────────┼───────────┼────────────┘  asked to stop
//       └────────────┴───────────┴──► kFailed    a rank was lost, or load
//       failed
//
// kStopped and kFailed are final: the next group is another object with a
// higher generation.
enum class WorkerState {
  // Its processes are being started.
  kStarting,
  // They run and load the pipeline.
  kLoading,
  // Every rank has loaded: requests run.
  kReady,
  // Asked to end.
  kStopping,
  // Every process has ended and was reaped.
  kStopped,
  // It never got ready, or lost a rank; processes may still run.
  kFailed,
};

// Whether a group may go from one to the other.
bool is_valid_transition(WorkerState from, WorkerState to);

}  // namespace ferry
