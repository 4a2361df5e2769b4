#include "platform/base/saturating_math.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace ferry {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST(SaturatingMath, Sums) {
  EXPECT_EQ(saturating_add(0, 0), 0);
  EXPECT_EQ(saturating_add(kMost - 1, 1), kMost);
  EXPECT_EQ(saturating_add(kMost, 0), kMost);
  EXPECT_EQ(saturating_add(kMost, 1), kMost);
  EXPECT_EQ(saturating_add(1, kMost), kMost);
  EXPECT_EQ(saturating_add(kMost, kMost), kMost);
}

TEST(SaturatingMath, Products) {
  EXPECT_EQ(saturating_multiply(kMost, 0), 0);
  EXPECT_EQ(saturating_multiply(0, kMost), 0);
  EXPECT_EQ(saturating_multiply(kMost / 2, 2), kMost - 1);
  EXPECT_EQ(saturating_multiply(kMost / 2 + 1, 2), kMost);
  EXPECT_EQ(saturating_multiply(3, kMost / 2), kMost);
  EXPECT_EQ(saturating_multiply(kMost, kMost), kMost);
}

TEST(SaturatingMath, RoundsUp) {
  EXPECT_EQ(saturating_round_up(0, 256), 0);
  EXPECT_EQ(saturating_round_up(1, 256), 256);
  EXPECT_EQ(saturating_round_up(512, 256), 512);
  EXPECT_EQ(saturating_round_up(7, 1), 7);
  EXPECT_EQ(saturating_round_up(kMost, 1), kMost);
  // The largest multiple that there is, and beyond it.
  EXPECT_EQ(saturating_round_up(kMost / 256 * 256, 256), kMost / 256 * 256);
  EXPECT_EQ(saturating_round_up(kMost - 10, 256), kMost);
  EXPECT_EQ(saturating_round_up(5, kMost), kMost);
}

TEST(SaturatingMathDeathTest, NegativeArgumentsEndTheProcess) {
  EXPECT_DEATH((void)saturating_add(-1, 2), "a >= 0 \\(-1 and 0\\)");
  EXPECT_DEATH((void)saturating_add(2, -1), "b >= 0 \\(-1 and 0\\)");
  EXPECT_DEATH((void)saturating_multiply(-1, 2), "a >= 0");
  EXPECT_DEATH((void)saturating_multiply(2, -1), "b >= 0");
  EXPECT_DEATH((void)saturating_round_up(-1, 2), "value >= 0");
  EXPECT_DEATH((void)saturating_round_up(2, 0), "step > 0 \\(0 and 0\\)");
}

}  // namespace
}  // namespace ferry
