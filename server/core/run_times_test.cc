#include "server/core/run_times.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace ferry {
namespace {

constexpr char kName[] = "pipelines/p";

RunTimes::Run run_of(absl::Duration total) { return {total, total / 2, false}; }

RunTimes::Run slowed_run_of(absl::Duration total) {
  return {total, total / 2, true};
}

TEST(RunTimesTest, KnowsNothingAtFirst) {
  RunTimes times;
  EXPECT_FALSE(times.least(kName, {100, 10}).has_value());
  EXPECT_FALSE(times.pass_time(kName, {100, 10}).has_value());
  EXPECT_FALSE(times.mean(kName).has_value());
}

TEST(RunTimesTest, TheFastestRunOfTheSameWorkIsTheLeast) {
  RunTimes times;
  times.add(kName, {100, 10}, run_of(absl::Seconds(20)));
  times.add(kName, {100, 10}, run_of(absl::Seconds(10)));
  EXPECT_EQ(times.least(kName, {100, 10}), absl::Seconds(10));
  EXPECT_EQ(times.mean(kName), absl::Seconds(15));
}

TEST(RunTimesTest, TheLeastIsScaledDownOnly) {
  RunTimes times;
  times.add(kName, {100, 10}, run_of(absl::Seconds(10)));
  EXPECT_EQ(times.least(kName, {100, 5}), absl::Seconds(5));
  EXPECT_EQ(times.least(kName, {50, 10}), absl::Milliseconds(2500));
  EXPECT_EQ(times.least(kName, {200, 20}), absl::Seconds(10));
}

// Whatever of a run depends on its steps, its pixels, their square or nothing.
TEST(RunTimesTest, NothingRunsFasterThanTheLeast) {
  std::mt19937 random(1);
  const auto draw = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int i = 0; i < 1000; ++i) {
    const double fixed = draw(0, 1) < 0.5 ? 0 : draw(0, 1e4);
    const double square = draw(0, 1) < 0.5 ? 0 : draw(0, 1e-1);
    const double linear = draw(0, 10);
    const auto seconds = [&](const GenerationWork& work) {
      return absl::Seconds(
          fixed +
          work.passes * (linear * work.pass + square * work.pass * work.pass));
    };
    RunTimes times;
    for (int n = 0; n < 4; ++n) {
      const GenerationWork work{draw(50, 200), static_cast<int>(draw(5, 20))};
      times.add(kName, work, run_of(seconds(work)));
    }
    const GenerationWork next{draw(50, 200), static_cast<int>(draw(5, 20))};
    const auto least = times.least(kName, next);
    if (!least.has_value()) continue;
    EXPECT_LE(*least, seconds(next) + absl::Microseconds(1));
  }
}

TEST(RunTimesTest, APassIsScaledToItsWork) {
  RunTimes times;
  times.add(kName, {100, 10}, run_of(absl::Seconds(40)));
  times.add(kName, {100, 40}, run_of(absl::Seconds(80)));
  EXPECT_EQ(times.pass_time(kName, {100, 10}), absl::Seconds(1));
  EXPECT_EQ(times.pass_time(kName, {200, 10}), absl::Seconds(2));
  EXPECT_EQ(times.pass_time(kName, {50, 10}), absl::Milliseconds(500));
}

TEST(RunTimesTest, SlowedRunsTellNothingOfTheirWork) {
  RunTimes times;
  times.add(kName, {100, 10}, slowed_run_of(absl::Seconds(80)));
  EXPECT_FALSE(times.least(kName, {100, 10}).has_value());
  EXPECT_FALSE(times.pass_time(kName, {100, 10}).has_value());
  EXPECT_EQ(times.mean(kName), absl::Seconds(80));
}

TEST(RunTimesTest, SaysNothingOfOtherWorkAndPipelines) {
  RunTimes times;
  times.add(kName, {100, 10}, run_of(absl::Seconds(10)));
  EXPECT_FALSE(times.least(kName, {100, 21}).has_value());
  EXPECT_FALSE(times.least(kName, {100, 4}).has_value());
  EXPECT_FALSE(times.least(kName, {201, 10}).has_value());
  EXPECT_FALSE(times.least(kName, {49, 10}).has_value());
  EXPECT_FALSE(times.pass_time(kName, {201, 10}).has_value());
  EXPECT_FALSE(times.pass_time(kName, {49, 10}).has_value());
  EXPECT_FALSE(times.least("pipelines/other", {100, 10}).has_value());
}

TEST(RunTimesTest, ForgetsOldRuns) {
  RunTimes times;
  times.add(kName, {100, 10}, run_of(absl::Seconds(1)));
  for (int i = 0; i < 32; ++i) {
    times.add(kName, {100, 10}, run_of(absl::Seconds(10)));
  }
  EXPECT_EQ(times.least(kName, {100, 10}), absl::Seconds(10));
}

}  // namespace
}  // namespace ferry
