#include "platform/base/check.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace ferry {
namespace {

enum class Phase { kIdle, kRunning };

TEST(Check, WhatHoldsChangesNothing) {
  int evaluated = 0;
  FERRY_CHECK(++evaluated == 1);
  FERRY_CHECK_EQ(++evaluated, 2);
  FERRY_CHECK_NE(1, 2);
  FERRY_CHECK_LT(-1, 0);
  FERRY_CHECK_LE(2, 2);
  FERRY_CHECK_GT(2.5, 2.25);
  FERRY_CHECK_GE(std::string("b"), "a");
  EXPECT_EQ(evaluated, 2);
}

TEST(Check, IsOneStatement) {
  if (true)
    FERRY_CHECK(true);
  else
    FERRY_CHECK_EQ(1, 2);
}

TEST(CheckDeathTest, SaysWhereAndWhatWasExpected) {
  const int* const pointer = nullptr;
  EXPECT_DEATH(FERRY_CHECK(pointer != nullptr),
               "^platform/base/check_test\\.cc:[0-9]+: check failed: "
               "pointer != nullptr\n");
}

TEST(CheckDeathTest, SaysTheValues) {
  const size_t block = 7;
  const std::string name = "a\n" + std::string(1000, 'b');
  EXPECT_DEATH(FERRY_CHECK_LT(block, 4u),
               "check failed: block < 4u \\(7 and 4\\)\n");
  EXPECT_DEATH(FERRY_CHECK_EQ(std::numeric_limits<int64_t>::max(), int64_t{-1}),
               "\\(9223372036854775807 and -1\\)\n");
  EXPECT_DEATH(FERRY_CHECK_EQ(Phase::kRunning, Phase::kIdle),
               "check failed: Phase::kRunning == Phase::kIdle \\(1 and 0\\)\n");
  EXPECT_DEATH(FERRY_CHECK_EQ(name, "c"), "\\(\"a\\\\nb{198}\" and \"c\"\\)\n");
  EXPECT_DEATH(FERRY_CHECK_NE(true, true), "\\(true and true\\)\n");
  EXPECT_DEATH(FERRY_CHECK_GE(1, 2), "1 >= 2");
  EXPECT_DEATH(FERRY_CHECK_GT(1, 1), "1 > 1");
  EXPECT_DEATH(FERRY_CHECK_LE(2, 1), "2 <= 1");
}

// Not a number of its own invention: NaN is not equal to itself.
TEST(CheckDeathTest, ComparesAsTheLanguageDoes) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_DEATH(FERRY_CHECK_EQ(nan, nan), "nan and -?nan");
}

}  // namespace
}  // namespace ferry
