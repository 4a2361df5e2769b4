#pragma once

#include <string>

namespace ferry {

// How long ferryd takes from its start until it listens (ferryd_start_ms), and
// until a request would succeed, which includes a worker that loads the package
// (ready_after_start_ms).
void measure_start_time(const std::string& package);

}  // namespace ferry
