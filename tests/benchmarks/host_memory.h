#pragma once

namespace ferry {

// host_bytes_ratio: host memory of a worker that streams half a gigabyte of
// weights, above that of one with next to none, ÷ the weights' bytes;
// load_peak_ratio: the most of the same while it loads.
void measure_host_memory();

}  // namespace ferry
