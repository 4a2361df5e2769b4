#include "platform/distributed/flight_recorder.h"

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/base/clock.h"
#include "platform/base/testing/simulated_clock.h"
#include "platform/distributed/host_communicator.h"
#include "platform/distributed/in_process/in_process_group.h"
#include "platform/distributed/recorded_host_communicator.h"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using State = FlightRecorder::State;

TEST(FlightRecorderTest, TellsTheLifeOfEachOperation) {
  SimulatedClock clock;
  FlightRecorder recorder("weights, rank 0 of 2", clock);
  const int64_t gather = recorder.enqueue("all_gather", 4096);
  clock.advance(absl::Milliseconds(2));
  recorder.start(gather);
  const int64_t reduce = recorder.enqueue("all_reduce_or", 0);
  const int64_t last = recorder.enqueue("all_gather", 1);
  clock.advance(absl::Milliseconds(5));
  recorder.end(gather, absl::OkStatus());
  recorder.start(reduce);
  clock.advance(absl::Seconds(1));
  EXPECT_THAT(
      recorder.lines(),
      ElementsAre(
          "#1 all_gather of 4096 bytes: ended, enqueued 1.007s ago, waited "
          "2ms, took 5ms",
          "#2 all_reduce_or: started, enqueued 1.005s ago, waited 5ms, runs "
          "since 1s",
          "#3 all_gather of 1 bytes: enqueued, enqueued 1.005s ago"));
  EXPECT_EQ(last, 3);
}

TEST(FlightRecorderTest, KeepsTheLatest) {
  FlightRecorder recorder("control", Clock::real());
  for (int i = 1; i <= 1000; ++i) {
    EXPECT_EQ(recorder.enqueue("all_gather", i), i);
  }
  // Long forgotten.
  recorder.start(1);
  recorder.end(1, absl::OkStatus());
  const std::vector<FlightRecorder::Entry> entries = recorder.entries();
  ASSERT_EQ(entries.size(), 256u);
  EXPECT_EQ(entries.front().number, 745);
  EXPECT_EQ(entries.back().bytes, 1000);
  for (const FlightRecorder::Entry& entry : entries) {
    EXPECT_EQ(entry.state, State::kEnqueued);
  }
}

TEST(FlightRecorderTest, TheFirstFailureIsLoggedWithWhatWasBeforeIt) {
  FlightRecorder recorder("control, rank 1 of 3", Clock::real());
  recorder.end(recorder.enqueue("all_reduce_or", 0), absl::OkStatus());
  const int64_t failed = recorder.enqueue("all_gather", 77);
  testing::internal::CaptureStderr();
  recorder.end(failed, absl::DeadlineExceededError("rank 2 did not come"));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("rank 2 did not come"));
  EXPECT_THAT(log, HasSubstr("control, rank 1 of 3"));
  EXPECT_THAT(log, HasSubstr("#1 all_reduce_or: ended"));
  EXPECT_THAT(log, HasSubstr("#2 all_gather of 77 bytes: failed"));
  testing::internal::CaptureStderr();
  recorder.end(recorder.enqueue("all_gather", 1), absl::UnavailableError("x"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(FlightRecorderTest, SeesTheCallsOfACommunicator) {
  InProcessGroup group(1);
  FlightRecorder recorder("control", Clock::real());
  RecordedHostCommunicator communicator(group.join(0), recorder);
  EXPECT_EQ(communicator.rank(), 0);
  EXPECT_EQ(communicator.size(), 1);
  const int64_t in = 1;
  int64_t out = 0;
  ASSERT_TRUE(
      communicator.all_gather(&in, &out, sizeof in, absl::Hours(1)).ok());
  EXPECT_EQ(*communicator.all_reduce_or(5, absl::Hours(1)), 5u);
  communicator.abort("the end");
  EXPECT_THAT(std::string(communicator.status().message()),
              HasSubstr("the end"));
  testing::internal::CaptureStderr();
  EXPECT_FALSE(barrier(communicator, absl::Hours(1)).ok());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the end"));
  const std::vector<FlightRecorder::Entry> entries = recorder.entries();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].state, State::kEnded);
  EXPECT_EQ(entries[0].bytes, 8);
  EXPECT_EQ(std::string(entries[1].kind), "all_reduce_or");
  EXPECT_EQ(entries[1].state, State::kEnded);
  EXPECT_EQ(entries[2].state, State::kFailed);
}

TEST(FlightRecorderTest, ManyThreadsMayUseIt) {
  FlightRecorder recorder("control", Clock::real());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 500; ++k) {
        const int64_t number = recorder.enqueue("all_gather", k);
        recorder.start(number);
        recorder.end(number, absl::OkStatus());
        if (k % 100 == 0) EXPECT_FALSE(recorder.lines().empty());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(recorder.entries().back().number, 2000);
}

}  // namespace
}  // namespace ferry
