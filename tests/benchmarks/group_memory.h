#pragma once

namespace ferry {

// host_bytes_n4: host memory of 4 workers that hold half a gigabyte of weights
// together, above that of 4 that hold next to none, ÷ the weights' bytes.
void measure_group_memory();

}  // namespace ferry
