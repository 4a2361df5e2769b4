#pragma once

#include "server/core/daemon_config.h"
#include "server/frontend/end_requests.h"
#include "server/frontend/exit_codes.h"

namespace ferry {

// Puts ferryd together from its parts and runs it until its end. Blocks; logs
// what goes wrong. `end` must outlive the call.
ExitCode run_ferryd(const DaemonConfig& config, EndRequests* end);

}  // namespace ferry
