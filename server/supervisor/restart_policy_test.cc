#include "server/supervisor/restart_policy.h"

#include <vector>

#include "gtest/gtest.h"

namespace ferry {
namespace {

constexpr double kMiddle = 0.5;  // Factor 1.

RestartPolicy::Options options(int limit) {
  RestartPolicy::Options options;
  options.backoff_min = absl::Seconds(1);
  options.backoff_max = absl::Seconds(5);
  options.limit = limit;
  options.window = absl::Minutes(10);
  return options;
}

TEST(RestartPolicyTest, FirstAtOnceThenDoublesUpToTheMost) {
  RestartPolicy policy(options(6), [] { return kMiddle; });
  std::vector<double> seconds;
  for (int i = 0; i < 6; ++i) {
    seconds.push_back(absl::ToDoubleSeconds(
        policy.next_delay(absl::Seconds(i)).value_or(absl::Hours(1))));
  }
  EXPECT_EQ(seconds, (std::vector<double>{0, 1, 2, 4, 5, 5}));
}

TEST(RestartPolicyTest, JitterIsWithinAFifth) {
  RestartPolicy least(options(2), [] { return 0.0; });
  RestartPolicy most(options(2), [] { return 0.999999; });
  least.next_delay(absl::ZeroDuration());
  most.next_delay(absl::ZeroDuration());
  EXPECT_EQ(least.next_delay(absl::ZeroDuration()), absl::Milliseconds(800));
  const absl::Duration longest = *most.next_delay(absl::ZeroDuration());
  EXPECT_GT(longest, absl::Milliseconds(1199));
  EXPECT_LE(longest, absl::Milliseconds(1200));
}

TEST(RestartPolicyTest, TheBudgetIsSpentWithinTheWindow) {
  RestartPolicy policy(options(2), [] { return kMiddle; });
  EXPECT_TRUE(policy.next_delay(absl::Minutes(0)).has_value());
  EXPECT_TRUE(policy.next_delay(absl::Minutes(9)).has_value());
  EXPECT_FALSE(policy.next_delay(absl::Minutes(10)).has_value());
}

TEST(RestartPolicyTest, ForgetsWhatIsOlderThanTheWindow) {
  RestartPolicy policy(options(2), [] { return kMiddle; });
  policy.next_delay(absl::Minutes(0));
  policy.next_delay(absl::Minutes(9));
  // The first is forgotten, the second counts.
  EXPECT_EQ(policy.next_delay(absl::Minutes(11)), absl::Seconds(1));
  // All are: at once again.
  EXPECT_EQ(policy.next_delay(absl::Minutes(60)), absl::ZeroDuration());
}

TEST(RestartPolicyTest, LimitZeroNeverRestarts) {
  RestartPolicy policy(options(0), [] { return kMiddle; });
  EXPECT_FALSE(policy.next_delay(absl::ZeroDuration()).has_value());
}

}  // namespace
}  // namespace ferry
