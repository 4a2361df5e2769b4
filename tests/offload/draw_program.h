#pragma once

#include <cstdint>

#include "tests/offload/random_program.h"

namespace ferry {

// The program of a seed: always the same, on every machine. DiTs, an encoder
// and sometimes a VAE, blocks of one or two types, and of oddities none (a
// fifth of the programs), one (another fifth) or several.
RandomProgram draw_program(uint64_t seed);

}  // namespace ferry
