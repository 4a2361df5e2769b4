#pragma once

#include <cstdint>

namespace ferry {

// Calls of operator new so far, by all threads and libraries of this program.
int64_t count_allocations();

}  // namespace ferry
