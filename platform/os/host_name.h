#pragma once

#include <string>

namespace ferry {

// This host's name, as the kernel has it; "unknown" if it has none.
// Threads: free function without state.
std::string host_name();

}  // namespace ferry
