#pragma once

#include "tests/offload/random_program.h"

namespace ferry {

// Programs with as many rings of kBlocksOfRing blocks, each with one tensor,
// and a DiT with one. Each block is used once in a pass, in order.
inline constexpr int kBlocksOfRing = 4;

// One encoder with so many containers of blocks.
RandomProgram many_stacks(int stacks);
// So many encoders with one container each.
RandomProgram many_encoders(int encoders);

}  // namespace ferry
