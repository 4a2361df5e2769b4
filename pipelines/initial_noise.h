#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ferry {

// Normally distributed float32 noise on the CPU. Picture i of the batch
// depends on its own seed only, and equals
//   torch.randn([1, *shape[1:]],
//               generator=torch.Generator("cpu").manual_seed(seed + i)).
// `shape`: the latents' shape, the batch first. Seeds wrap at 2^64.
// Throws what LibTorch throws.
at::Tensor make_initial_noise(const std::vector<int64_t>& shape, int64_t seed);

}  // namespace ferry
