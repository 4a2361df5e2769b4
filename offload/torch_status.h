#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ferry {

// The one place where exceptions of LibTorch become absl::Status.

// Returns the status of the exception that is being handled, as one line of at
// most 512 bytes that starts with `where`, without stack traces.
//   RESOURCE_EXHAUSTED  GPU_OUT_OF_MEMORY: an allocation failed
//   INTERNAL            INTERNAL: everything else
// What throw_status() threw comes back as it was.
// REQUIRES: called in a catch block.
absl::Status current_exception_status(absl::string_view where);

// Throws `status` through LibTorch's interpreter, which replaces exceptions by
// its own. Only inside call_torch() on the same thread.
[[noreturn]] void throw_status(absl::Status status);

// Forgets what an earlier throw_status() left behind.
void forget_thrown_status();

// Calls `function`, which may throw.
template <typename Function>
absl::Status call_torch(absl::string_view where, Function&& function) {
  forget_thrown_status();
  try {
    std::forward<Function>(function)();
    return absl::OkStatus();
  } catch (...) {
    return current_exception_status(where);
  }
}

// The line of an exception's text that says what went wrong: without the
// interpreter's traceback and without control characters, shortened.
std::string shorten_error_text(absl::string_view text);

}  // namespace ferry
