#include "server/supervisor/worker_state.h"

namespace ferry {

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
