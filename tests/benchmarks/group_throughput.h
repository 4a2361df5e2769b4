#pragma once

namespace ferry {

// throughput_n4_vs_n1: requests a second of 4 ranks that hold blocks together,
// above those of one rank that streams them alone, ÷ what that should be by the
// set rates: 4 · max(C, X) ÷ max(C, X ÷ 4, G), here 12. C is what a pass
// computes, X what one rank alone copies for it, G what the gathers take.
void measure_group_throughput();

}  // namespace ferry
