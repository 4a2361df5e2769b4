#pragma once

#include <string>

namespace ferry {

// How long a group of 4 ranks is away when one of them is lost
// (group_recovery_s): from SIGKILL to the next picture, which is the one from
// before. The ranks take turns.
void measure_group_recovery(const std::string& package);

}  // namespace ferry
