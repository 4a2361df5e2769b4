#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ferry {

// What a call of gRPC, or a task of a thread, runs inside of: an exception that
// left it would end the process, or leave another thread without an answer.
// (offload/torch_status.h knows more of what LibTorch throws.)

// The exception that is being handled, as an error that names `call`:
//   RESOURCE_EXHAUSTED  GPU_OUT_OF_MEMORY  std::bad_alloc
//   INTERNAL            INTERNAL           all others
// It is for catch blocks, where call_guarded() calls it.
absl::Status guarded_exception(absl::string_view call);

// Returns what `function` returns, an absl::Status, or what it throws.
template <typename Function>
absl::Status call_guarded(absl::string_view call, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (...) {
    return guarded_exception(call);
  }
}

}  // namespace ferry
