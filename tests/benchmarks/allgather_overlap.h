#pragma once

namespace ferry {

// allgather_overlap_n{2,4}: how well copies and gathers hide behind compute
// when ranks hold blocks together. The product's backend on simulated devices
// in real time, ranks as threads. A pass should take max(C, X ÷ N, G): C what
// its blocks compute, X what one rank alone would copy, of which each copies
// its part, G what gathers take, all by what was set and not by what was
// measured. The value is the worst of some settings: in three of them another
// one decides, in one all are equal, and nothing has time to spare.
void measure_allgather_overlap();

}  // namespace ferry
