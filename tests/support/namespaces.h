#pragma once

#include "absl/status/status.h"

namespace ferry {

// Moves this process, and all that it starts from now on, into new namespaces
// of these kinds (CLONE_NEWNS, CLONE_NEWNET), and into a new user namespace, as
// its root, where it takes that.
//
// REQUIRES: has_one_thread(). Others would stay where they are.
// An error says why this machine allows none.
absl::Status enter_namespaces(int kinds);

}  // namespace ferry
