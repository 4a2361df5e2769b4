#pragma once

namespace ferry {

// load_blocks_ratio: to place a pipeline of 2,000 blocks by mode "auto", on a
// device that holds half of them, ÷ the same by mode "layer". The plan is
// what differs.
void measure_load_blocks();

}  // namespace ferry
