#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace ferry {

// The seed of what a model draws by itself (randn_like, dropout, …) in a
// generation with this seed: SplitMix64's finalizer of the seed, again until no
// picture's initial noise has the same one. Picture i draws its own with
// `seed` + i, and CPU generators look at the low 32 bits only.
uint64_t model_seed(int64_t seed);

// Seeds LibTorch's global generators, of the host and of `device`, with
// model_seed(): what is drawn from them depends on nothing that ran before.
// There is one stream for all pictures of a generation.
//
// The generators are the process's: one pipeline in it generates at a time.
void seed_generators(int64_t seed, c10::Device device);

}  // namespace ferry
