#include "server/core/run_times.h"

#include <gtest/gtest.h>

#include <string>

namespace ferry {
namespace {

v1::GenerationSpec spec(int steps, const std::string& pipeline = "p") {
  v1::GenerationSpec spec;
  spec.set_pipeline(pipeline);
  spec.set_num_inference_steps(steps);
  spec.set_height(64);
  spec.set_width(64);
  spec.set_num_images(1);
  return spec;
}

TEST(RunTimesTest, KnowsNothingAtFirst) {
  RunTimes times;
  EXPECT_FALSE(times.estimate(spec(10)).has_value());
  EXPECT_FALSE(times.mean("p").has_value());
}

TEST(RunTimesTest, ScalesTheFastestSimilarRun) {
  RunTimes times;
  times.add(spec(10), absl::Seconds(20));
  times.add(spec(10), absl::Seconds(10));
  EXPECT_EQ(times.estimate(spec(10)), absl::Seconds(10));
  EXPECT_EQ(times.estimate(spec(20)), absl::Seconds(20));
  EXPECT_EQ(times.estimate(spec(5)), absl::Seconds(5));
  EXPECT_EQ(times.mean("p"), absl::Seconds(15));
}

TEST(RunTimesTest, SaysNothingOfOtherWorkAndPipelines) {
  RunTimes times;
  times.add(spec(10), absl::Seconds(10));
  EXPECT_FALSE(times.estimate(spec(21)).has_value());
  EXPECT_FALSE(times.estimate(spec(4)).has_value());
  EXPECT_FALSE(times.estimate(spec(10, "other")).has_value());
}

TEST(RunTimesTest, ForgetsOldRuns) {
  RunTimes times;
  times.add(spec(10), absl::Seconds(1));
  for (int i = 0; i < 32; ++i) times.add(spec(10), absl::Seconds(10));
  EXPECT_EQ(times.estimate(spec(10)), absl::Seconds(10));
}

}  // namespace
}  // namespace ferry
