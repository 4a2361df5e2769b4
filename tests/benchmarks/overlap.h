#pragma once

namespace ferry {

// How well copies hide behind compute, on the simulated device in real time:
// the product's backend, with the resident blocks that its planner chooses.
// A pass should take max(C, X): C what its blocks compute, X what their copies
// take, both by what was set and not by what was measured.

// overlap_x{0.5,1,2}_resident{0,25,33,67}: equal blocks; x is X ÷ C of the
// blocks that stream, resident how many percent stay.
void measure_overlap();
// overlap_unequal_x1: blocks of two sizes, as FLUX has them.
void measure_overlap_unequal();
// interleaved_vs_leading: how much longer a pass takes with the usual policy,
// the first blocks resident and the others one ahead, in the same memory.
void measure_interleaved_vs_leading();

}  // namespace ferry
