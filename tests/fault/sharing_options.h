#pragma once

#include <string>

#include "tests/fault/faults.h"
#include "tests/support/daemon.h"

namespace ferry {

// A daemon of one pipeline, "group", whose ranks run on simulated devices,
// share the weights of their DiTs in this way, and have fault points. How many
// they are is a flag of the caller's.
Daemon::Options sharing_options(const Faults& faults,
                                const std::string& weight_transfer);

// The same, but they find out by themselves that they had better gather.
Daemon::Options choosing_options(const Faults& faults);

}  // namespace ferry
