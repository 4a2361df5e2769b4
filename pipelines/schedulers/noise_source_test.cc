#include "pipelines/schedulers/noise_source.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "ATen/core/Tensor.h"
#include "gtest/gtest.h"

namespace ferry {
namespace {

std::vector<float> to_vector(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

// Values that torch.randn gives in Python with the same generator seed. Its
// logarithm and cosine differ in the last bits between processors.
TEST(NoiseSourceTest, EqualsPythons) {
  const auto compare = [](const at::Tensor& noise,
                          const std::vector<float>& expected) {
    const std::vector<float> values = to_vector(noise);
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], expected[i], 1e-6) << i;
    }
  };
  compare(NoiseSource(0, 1).draw({1, 4}),
          {1.5409960747f, -0.2934288979f, -2.1787893772f, 0.5684312582f});
  // From 16 values on, the generator is used in another way.
  compare(NoiseSource(0, 1).draw({1, 16}),
          {-1.1258398294f, -1.1523602009f, -0.2505785823f, -0.4338788092f,
           0.8487103581f, 0.6920091510f, -0.3160127699f, -2.1152193546f,
           0.3222749233f, -1.2633347511f, 0.3499831855f, 0.3081339300f,
           0.1198415086f, 1.2376579046f, 1.1167771816f, -0.2472781539f});
}

TEST(NoiseSourceTest, APictureDependsOnItsOwnSeed) {
  NoiseSource batch(41, 3);
  std::vector<NoiseSource> alone;
  for (int i = 0; i < 3; ++i) alone.emplace_back(41 + i, 1);
  at::Tensor last;
  // The initial noise, and what samplers add later.
  for (int draw = 0; draw < 3; ++draw) {
    const at::Tensor noise = batch.draw({3, 4, 8, 8});
    EXPECT_EQ(noise.sizes(), at::IntArrayRef({3, 4, 8, 8}));
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(noise[i].equal(alone[i].draw({1, 4, 8, 8})[0]));
    }
    EXPECT_FALSE(noise[0].equal(noise[1]));
    if (last.defined()) EXPECT_FALSE(noise.equal(last));
    last = noise;
  }
}

TEST(NoiseSourceTest, TheLargestSeedWraps) {
  const at::Tensor batch =
      NoiseSource(std::numeric_limits<int64_t>::max(), 2).draw({2, 4});
  EXPECT_FALSE(batch[0].equal(batch[1]));
}

}  // namespace
}  // namespace ferry
