#pragma once

namespace ferry {

// What ranks that are processes pay for talking with each other, over Gloo on
// the loopback interface.

// vote_overhead_us: what a vote of 4 ranks adds to a pass when everything was
// predicted right, from when the last one comes to it until all know the
// result; the median.
void measure_vote_overhead();
// gather_busbw_ratio: bandwidth of the gathers of two ranks' shares of blocks ÷
// that of a bare loop over Gloo with messages of the same size.
void measure_gather_busbw();

}  // namespace ferry
