#include "server/frontend/event_stream.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "platform/base/testing/simulated_clock.h"
#include "server/core/job.h"

namespace ferry {
namespace {

// What is said of a call with `timeout` that is cancelled after `passed`.
absl::StatusCode code_after(absl::Duration timeout, absl::Duration passed) {
  SimulatedClock clock;
  Job::Options options;
  options.deadline = clock.monotonic() + timeout;
  const Job job(std::move(options), clock);
  clock.advance(passed);
  return call_cancelled(job, clock.monotonic()).code();
}

TEST(CallCancelledTest, BeforeItsDeadlineByTheClient) {
  EXPECT_EQ(code_after(absl::Seconds(100), absl::Seconds(98)),
            absl::StatusCode::kCancelled);
}

TEST(CallCancelledTest, WithoutADeadlineByTheClient) {
  EXPECT_EQ(code_after(absl::InfiniteDuration(), absl::Hours(9)),
            absl::StatusCode::kCancelled);
}

TEST(CallCancelledTest, AfterItsDeadline) {
  EXPECT_EQ(code_after(absl::Seconds(1), absl::Seconds(2)),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(CallCancelledTest, ByTheClientsTimerThatIsEarlierThanTheServers) {
  EXPECT_EQ(code_after(absl::Milliseconds(1500), absl::Milliseconds(1490)),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(code_after(absl::Seconds(100), absl::Seconds(99.5)),
            absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace ferry
