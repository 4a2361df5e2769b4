#pragma once

namespace ferry {

// gather_host_us, and its 99th percentile: how long the host is busy with a
// gather between GPUs in the steady state, where neither CUDA's nor NCCL's API
// does anything.
void measure_gather_cost();

}  // namespace ferry
