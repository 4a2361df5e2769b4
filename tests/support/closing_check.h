#pragma once

#include <vector>

#include "tests/support/daemon.h"

namespace ferry {

// How a test of ferryd ends. Each of these adds a failure to the running test
// for everything that is not as it should be.

// Nothing is queued or running, and no connection of a client is left but the
// daemon's own; waits for both. REQUIRES: ready.
void expect_idle(Daemon& daemon);

// Ends the daemon by SIGTERM, unless it has ended by itself, and expects this
// exit code, or the signal when the code is negative (−9 for SIGKILL). Then no
// process, file or shared memory is left of it, and its log holds no prompt.
void expect_closes(Daemon& daemon, int exit_code = 0);

}  // namespace ferry
