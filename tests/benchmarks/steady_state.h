#pragma once

namespace ferry {

// steady_state_allocations: what the whole program allocates, on the device, on
// the host and by operator new, while blocks stream, from the third pass on.
void measure_steady_state_allocations();

}  // namespace ferry
