#pragma once

#include <vector>

namespace ferry {

// A block as the event model sees it, in any unit of time.
struct ModelBlock {
  double compute = 0;
  // Of its copy; unused when it is resident.
  double transfer = 0;
  bool is_resident = false;
};

// How long one pass over the blocks takes in the steady state, with one copy
// engine and `slots` slots, when a copy is issued as soon as a block has given
// its slot away (as BlockRing does). Never less than the sum of the computes,
// nor than that of the transfers.
double model_pass_time(const std::vector<ModelBlock>& blocks, int slots);

}  // namespace ferry
