#pragma once

#include <string>

namespace ferry {

// weight_d2h_bytes: what a pipeline copies from the device to the host, from
// loading it until offloading is disabled again, over all strategies.
void measure_weight_copies(const std::string& package);

}  // namespace ferry
