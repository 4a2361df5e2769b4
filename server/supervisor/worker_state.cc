#include "server/supervisor/worker_state.h"

namespace ferry {

const char* to_string(WorkerState state) {
  switch (state) {
    case WorkerState::kStarting:
      return "starting";
    case WorkerState::kLoading:
      return "loading";
    case WorkerState::kReady:
      return "ready";
    case WorkerState::kStopping:
      return "stopping";
    case WorkerState::kStopped:
      return "stopped";
    case WorkerState::kFailed:
      return "failed";
  }
  return "unknown";
}

bool is_valid_transition(WorkerState from, WorkerState to) {
  switch (from) {
    case WorkerState::kStarting:
      return to == WorkerState::kLoading || to == WorkerState::kStopping ||
             to == WorkerState::kFailed;
    case WorkerState::kLoading:
      return to == WorkerState::kReady || to == WorkerState::kStopping ||
             to == WorkerState::kFailed;
    case WorkerState::kReady:
      return to == WorkerState::kStopping || to == WorkerState::kFailed;
    case WorkerState::kStopping:
      return to == WorkerState::kStopped;
    case WorkerState::kStopped:
    case WorkerState::kFailed:
      return false;
  }
  return false;
}

}  // namespace ferry
