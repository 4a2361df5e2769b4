#pragma once

#include <string>
#include <type_traits>
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

// Calls `function`, which may throw, and returns what it returns: nothing, a
// status, or a status or a value.
template <typename Function>
auto call_torch(absl::string_view where, Function&& function)
    -> std::conditional_t<std::is_void_v<std::invoke_result_t<Function>>,
                          absl::Status, std::invoke_result_t<Function>> {
  forget_thrown_status();
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Function>>) {
      std::forward<Function>(function)();
      return absl::OkStatus();
    } else {
      return std::forward<Function>(function)();
    }
  } catch (...) {
    return current_exception_status(where);
  }
}

// The line of an exception's text that says what went wrong: without the
// interpreter's traceback and without control characters, shortened.
std::string shorten_error_text(absl::string_view text);

}  // namespace ferry
