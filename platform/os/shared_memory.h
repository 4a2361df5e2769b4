#pragma once

#include "absl/status/statusor.h"
#include "platform/os/unique_fd.h"

namespace ferry {

// A file in memory, without bytes yet, for processes that inherit it: its pages
// are gone when the last of them is. `name` stands in /proc/PID/smaps. Its size
// can be sealed; exec closes it. RESOURCE_EXHAUSTED: the system gives no more.
absl::StatusOr<UniqueFd> make_shared_memory(const char* name);

}  // namespace ferry
