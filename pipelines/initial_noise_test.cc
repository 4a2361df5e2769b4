#include "pipelines/initial_noise.h"

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace ferry {
namespace {

std::vector<float> to_vector(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

// Values that torch.randn gives in Python with the same generator seed. Its
// logarithm and cosine differ in the last bits between processors.
TEST(InitialNoise, EqualsPythons) {
  const auto compare = [](const at::Tensor& noise,
                          const std::vector<float>& expected) {
    const std::vector<float> values = to_vector(noise);
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], expected[i], 1e-6) << i;
    }
  };
  compare(make_initial_noise({1, 4}, 0),
          {1.5409960747f, -0.2934288979f, -2.1787893772f, 0.5684312582f});
  // From 16 values on, the generator is used in another way.
  compare(make_initial_noise({1, 16}, 0),
          {-1.1258398294f, -1.1523602009f, -0.2505785823f, -0.4338788092f,
           0.8487103581f, 0.6920091510f, -0.3160127699f, -2.1152193546f,
           0.3222749233f, -1.2633347511f, 0.3499831855f, 0.3081339300f,
           0.1198415086f, 1.2376579046f, 1.1167771816f, -0.2472781539f});
}

TEST(InitialNoise, APictureDependsOnItsOwnSeed) {
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
