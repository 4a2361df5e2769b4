#pragma once

namespace ferry {

// bind_prefetch_host_us, and its 99th percentile: how long the host is busy
// with a block of 24 tensors in the steady state, to wait for it, bind it,
// unbind it and enqueue the next one, on a CUDA device whose API does next to
// nothing.
void measure_bind_prefetch();

}  // namespace ferry
