#include "server/supervisor/heartbeat_monitor.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/supervisor/worker_state.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

HeartbeatMonitor::Options options() {
  return {absl::Seconds(15), absl::Seconds(120), absl::Seconds(30)};
}

worker::v1::HeartbeatResponse answer(int64_t since_progress,
                                     int64_t since_cancel = -1) {
  worker::v1::HeartbeatResponse answer;
  answer.set_job("jobs/1");
  answer.mutable_since_progress()->set_seconds(since_progress);
  if (since_cancel >= 0) {
    answer.mutable_since_cancel()->set_seconds(since_cancel);
  }
  return answer;
}

TEST(HeartbeatMonitorTest, AcceptsIdleAndProgress) {
  HeartbeatMonitor monitor(options());
  EXPECT_FALSE(monitor.on_answer({}).has_value());
  EXPECT_FALSE(monitor.on_answer(answer(120)).has_value());
  EXPECT_FALSE(monitor.on_answer(answer(0, 30)).has_value());
}

TEST(HeartbeatMonitorTest, NamesTheJobThatMakesNoProgress) {
  HeartbeatMonitor monitor(options());
  EXPECT_THAT(monitor.on_answer(answer(121)).value_or(""),
              HasSubstr("runs jobs/1, which made no progress for 2m"));
}

TEST(HeartbeatMonitorTest, NamesTheJobThatDoesNotEnd) {
  HeartbeatMonitor monitor(options());
  EXPECT_THAT(
      monitor.on_answer(answer(0, 31)).value_or(""),
      HasSubstr("runs jobs/1, which was cancelled and did not end within 30s"));
}

TEST(HeartbeatMonitorTest, ThreeInARowMustBeMissed) {
  HeartbeatMonitor monitor(options());
  EXPECT_EQ(monitor.attempt_timeout(), absl::Seconds(5));
  EXPECT_FALSE(monitor.on_timeout().has_value());
  EXPECT_FALSE(monitor.on_timeout().has_value());
  EXPECT_FALSE(monitor.on_answer({}).has_value());
  EXPECT_FALSE(monitor.on_timeout().has_value());
  EXPECT_FALSE(monitor.on_timeout().has_value());
  EXPECT_THAT(monitor.on_timeout().value_or(""),
              HasSubstr("did not answer for 15s"));
}

TEST(WorkerStateTest, FinalStatesStay) {
  for (const WorkerState final :
       {WorkerState::kStopped, WorkerState::kFailed}) {
    for (int to = 0; to <= static_cast<int>(WorkerState::kFailed); ++to) {
      EXPECT_FALSE(is_valid_transition(final, static_cast<WorkerState>(to)))
          << static_cast<int>(final) << " to " << to;
    }
  }
}

TEST(WorkerStateTest, ReadyComesOnlyAfterLoading) {
  EXPECT_TRUE(is_valid_transition(WorkerState::kLoading, WorkerState::kReady));
  EXPECT_FALSE(
      is_valid_transition(WorkerState::kStarting, WorkerState::kReady));
  EXPECT_FALSE(
      is_valid_transition(WorkerState::kStopping, WorkerState::kReady));
}

}  // namespace
}  // namespace ferry
