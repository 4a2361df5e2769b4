#include "pipelines/initial_noise.h"

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace ferry {
namespace {

std::vector<float> to_vector(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

// Values of torch.randn in Python with the same generator seed.
TEST(InitialNoise, EqualsPythons) {
  const std::vector<float> noise = to_vector(make_initial_noise({1, 4}, 0));
  const std::vector<float> expected = {1.5409960747f, -0.2934289575f,
                                       -2.1787893772f, 0.5684312582f};
  EXPECT_EQ(noise, expected);
}

TEST(InitialNoise, APictureDependsOnItsOwnSeed) {
  // 16 values and more are made by another code path than fewer.
  const at::Tensor batch = make_initial_noise({3, 4, 8, 8}, 41);
  EXPECT_EQ(batch.sizes(), at::IntArrayRef({3, 4, 8, 8}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(batch[i].equal(make_initial_noise({1, 4, 8, 8}, 41 + i)[0]));
  }
  EXPECT_FALSE(batch[0].equal(batch[1]));
}

TEST(InitialNoise, TheLargestSeedWraps) {
  const at::Tensor batch =
      make_initial_noise({2, 4}, std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(batch[0].equal(batch[1]));
}

}  // namespace
}  // namespace ferry
