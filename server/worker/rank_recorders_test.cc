#include "server/worker/rank_recorders.h"

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "platform/base/testing/simulated_clock.h"

namespace ferry {
namespace {

using v1::FlightRecord;

int64_t milliseconds(const google::protobuf::Duration& duration) {
  return duration.seconds() * 1000 + duration.nanos() / 1'000'000;
}

TEST(RankRecordersTest, HasNothingOfARankAlone) {
  SimulatedClock clock;
  const RankRecorders recorders(clock);
  EXPECT_TRUE(recorders.records().empty());
}

TEST(RankRecordersTest, TellsTheLifeOfEachOperation) {
  SimulatedClock clock;
  RankRecorders recorders(clock);
  FlightRecorder& weights = recorders.add("weights", 0, 2);
  const int64_t ended = weights.enqueue("all_gather", 4096);
  clock.advance(absl::Milliseconds(2));
  weights.start(ended);
  const int64_t started = weights.enqueue("all_reduce_or", 0);
  const int64_t failed = weights.enqueue("all_gather", 1);
  weights.enqueue("all_gather", 2);
  clock.advance(absl::Milliseconds(5));
  weights.end(ended, absl::OkStatus());
  weights.start(started);
  weights.end(failed, absl::UnavailableError("rank 1 is gone"));
  clock.advance(absl::Seconds(1));

  const std::vector<v1::GroupFlightRecords> groups = recorders.records();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].group(), "weights");
  ASSERT_EQ(groups[0].records_size(), 4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(groups[0].records(i).number(), i + 1);

  const FlightRecord& first = groups[0].records(0);
  EXPECT_EQ(first.kind(), "all_gather");
  EXPECT_EQ(first.bytes(), 4096);
  EXPECT_EQ(first.state(), FlightRecord::STATE_ENDED);
  EXPECT_EQ(milliseconds(first.age()), 1007);
  EXPECT_EQ(milliseconds(first.waited()), 2);
  EXPECT_EQ(milliseconds(first.took()), 5);

  const FlightRecord& second = groups[0].records(1);
  EXPECT_EQ(second.kind(), "all_reduce_or");
  EXPECT_EQ(second.bytes(), 0);
  EXPECT_EQ(second.state(), FlightRecord::STATE_STARTED);
  EXPECT_EQ(milliseconds(second.age()), 1005);
  EXPECT_EQ(milliseconds(second.waited()), 5);
  EXPECT_EQ(milliseconds(second.took()), 1000);

  const FlightRecord& third = groups[0].records(2);
  EXPECT_EQ(third.state(), FlightRecord::STATE_FAILED);
  EXPECT_EQ(milliseconds(third.age()), 1005);
  EXPECT_FALSE(third.has_waited());
  EXPECT_FALSE(third.has_took());

  const FlightRecord& fourth = groups[0].records(3);
  EXPECT_EQ(fourth.state(), FlightRecord::STATE_ENQUEUED);
  EXPECT_FALSE(fourth.has_waited());
  EXPECT_FALSE(fourth.has_took());
}

TEST(RankRecordersTest, KeepsTheLatestOfEachGroup) {
  SimulatedClock clock;
  RankRecorders recorders(clock);
  FlightRecorder& votes = recorders.add("votes", 1, 3);
  recorders.add("weights", 1, 3).enqueue("join", 0);
  for (int i = 0; i < 1000; ++i) votes.enqueue("all_reduce_or", 0);
  // Long forgotten.
  votes.start(1);

  const std::vector<v1::GroupFlightRecords> groups = recorders.records();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].group(), "votes");
  ASSERT_EQ(groups[0].records_size(), FlightRecorder::kCapacity);
  EXPECT_EQ(groups[0].records(0).number(), 745);
  EXPECT_EQ(groups[0].records(255).number(), 1000);
  for (const FlightRecord& record : groups[0].records()) {
    EXPECT_EQ(record.state(), FlightRecord::STATE_ENQUEUED);
  }
  EXPECT_EQ(groups[1].group(), "weights");
  EXPECT_EQ(groups[1].records_size(), 1);
}

TEST(RankRecordersTest, IsReadWhileTheRankJoinsAndWorks) {
  SimulatedClock clock;
  RankRecorders recorders(clock);
  std::thread rank([&] {
    for (const char* group : {"votes", "weights"}) {
      FlightRecorder& recorder = recorders.add(group, 0, 2);
      for (int i = 0; i < 1000; ++i) {
        const int64_t number = recorder.enqueue("all_gather", i);
        recorder.start(number);
        recorder.end(number, absl::OkStatus());
      }
    }
  });
  int64_t last = 0;
  while (last < 1000) {
    const std::vector<v1::GroupFlightRecords> groups = recorders.records();
    if (groups.size() < 2 || groups[1].records().empty()) continue;
    const auto& records = groups[1].records();
    EXPECT_GE(records.rbegin()->number(), last);
    last = records.rbegin()->number();
    EXPECT_EQ(records.begin()->number(), last - records.size() + 1);
  }
  rank.join();
}

}  // namespace
}  // namespace ferry
