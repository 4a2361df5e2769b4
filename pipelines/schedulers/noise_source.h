#pragma once

#include <cstdint>
#include <vector>

#include "ATen/core/Generator.h"
#include "ATen/core/Tensor.h"

namespace ferry {

// Normally distributed noise for the pictures of one generation, each from a
// generator of its own, as diffusers draws it from a list of CPU generators:
// what a picture gets depends on its seed and on what was drawn before, never
// on its batch.
//
// Ownership: one generation's. Threads: not thread-safe.
// Throws what LibTorch throws.
class NoiseSource {
 public:
  // Picture i has the seed `seed` + i, which wraps at 2^64.
  // REQUIRES: pictures >= 1.
  NoiseSource(int64_t seed, int64_t pictures);

  // The next noise, float32 on the CPU. Row i equals the next
  //   torch.randn([1, *shape[1:]], generator=torch.Generator("cpu"))
  // of picture i. REQUIRES: shape[0] is the number of pictures.
  at::Tensor draw(at::IntArrayRef shape);

 private:
  std::vector<at::Generator> generators_;
};

}  // namespace ferry
