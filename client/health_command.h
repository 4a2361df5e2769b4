#pragma once

#include "client/command_context.h"

namespace ferry {

// `ferryctl health`: prints the readiness and returns kSuccess exactly when it
// is SERVING.
int run_health(const CommandContext& context);

}  // namespace ferry
