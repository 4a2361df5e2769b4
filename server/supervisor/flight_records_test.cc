// What the ranks of a group did together, asked for in whatever state the group
// is.

#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ferry/v1/pipeline_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/base/clock.h"
#include "server/supervisor/ask_flight_records.h"
#include "server/supervisor/testing/supervisor_fixture.h"

namespace ferry {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using v1::FlightRecord;
using v1::GetFlightRecordsResponse;

// What the API promises.
constexpr absl::Duration kLongest = absl::Seconds(2);

class FlightRecordsTest : public SupervisorFixture {
 protected:
  static constexpr int kRanks = 3;

  FlightRecordsTest() { options_.worker.ranks = kRanks; }
  ~FlightRecordsTest() override { supervisor_.reset(); }

  GetFlightRecordsResponse ask() const {
    const absl::Duration start = Clock::real().monotonic();
    GetFlightRecordsResponse response = supervisor_->flight_records(kPipeline);
    EXPECT_LT(Clock::real().monotonic() - start, kLongest);
    for (int i = 0; i < response.ranks_size(); ++i) {
      EXPECT_EQ(response.ranks(i).index(), i);
      EXPECT_TRUE(!response.ranks(i).has_error() ||
                  response.ranks(i).groups().empty());
    }
    return response;
  }

  // Returns when it has stopped, which is not when the signal is sent.
  static void stop_process(pid_t pid) {
    kill(pid, SIGSTOP);
    siginfo_t info;
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOWAIT),
              0);
  }

  // Whether the scripted rank says that it joins.
  static bool joins(const v1::RankFlightRecords& rank) {
    return rank.groups_size() == 1 && rank.groups(0).group() == "votes" &&
           rank.groups(0).records_size() == 1 &&
           rank.groups(0).records(0).number() == 1 &&
           rank.groups(0).records(0).state() == FlightRecord::STATE_STARTED;
  }

  static int count_joins(const GetFlightRecordsResponse& response) {
    int count = 0;
    for (const auto& rank : response.ranks()) count += joins(rank) ? 1 : 0;
    return count;
  }
};

TEST_F(FlightRecordsTest, RanksThatLoadAreAsked) {
  start("hang_in_load@1");
  GetFlightRecordsResponse response;
  // Nothing tells when a rank has begun.
  while (count_joins(response) < kRanks) response = ask();
  EXPECT_EQ(response.generation(), 1);
  EXPECT_EQ(pipeline().state(), v1::Pipeline::STATE_LOADING);
}

TEST_F(FlightRecordsTest, ARankThatIsStoppedHidesNothingOfTheOthers) {
  start("");
  log_.wait_for("READY 1");
  const pid_t stopped = static_cast<pid_t>(pipeline().ranks(1).pid());
  stop_process(stopped);
  const GetFlightRecordsResponse response = ask();
  kill(stopped, SIGCONT);
  ASSERT_THAT(response.ranks(), SizeIs(kRanks));
  EXPECT_TRUE(joins(response.ranks(0)));
  EXPECT_TRUE(joins(response.ranks(2)));
  EXPECT_EQ(response.ranks(1).error().code(),
            static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(response.ranks(1).error().message(), "did not answer within 1s");
  EXPECT_EQ(count_joins(ask()), kRanks);
}

TEST_F(FlightRecordsTest, ARankAloneHasNoneAndThatIsNoError) {
  options_.worker.ranks = 1;
  start("");
  log_.wait_for("READY 1");
  const GetFlightRecordsResponse response = ask();
  ASSERT_THAT(response.ranks(), SizeIs(1));
  EXPECT_FALSE(response.ranks(0).has_error());
  EXPECT_THAT(response.ranks(0).groups(), IsEmpty());
}

TEST_F(FlightRecordsTest, WithoutAGroupThereIsNothing) {
  start("load_error");
  log_.wait_for("load_error");
  EXPECT_EQ(ask().generation(), 0);
  EXPECT_THAT(ask().ranks(), IsEmpty());
  EXPECT_THAT(supervisor_->flight_records("pipelines/none").ranks(), IsEmpty());
  supervisor_->stop();
  EXPECT_THAT(ask().ranks(), IsEmpty());
}

TEST_F(FlightRecordsTest, ConnectionsThatDoNotExistOrAreGoneAreNamed) {
  start("");
  log_.wait_for("READY 1");
  GroupConnections none;
  none.generation = 7;
  none.ranks.resize(2);
  const GetFlightRecordsResponse response =
      ask_flight_records(none, absl::Seconds(1));
  EXPECT_EQ(response.generation(), 7);
  ASSERT_THAT(response.ranks(), SizeIs(2));
  EXPECT_EQ(response.ranks(1).error().code(),
            static_cast<int>(absl::StatusCode::kUnavailable));
  EXPECT_EQ(response.ranks(1).error().message(), "is not connected yet");
}

// Groups are asked at every moment of their end and of their start. (Under
// ThreadSanitizer, too.)
TEST_F(FlightRecordsTest, GroupsThatAreLostMeanwhile) {
  constexpr int kGenerations = 8;
  options_.restart.limit = 2 * kGenerations;
  start("");
  std::atomic<bool> done = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        const GetFlightRecordsResponse response = ask();
        EXPECT_TRUE(response.ranks().empty() ||
                    response.ranks_size() == kRanks);
        EXPECT_EQ(response.ranks().empty(), response.generation() == 0);
      }
    });
  }
  for (int generation = 1; generation <= kGenerations; ++generation) {
    log_.wait_for(absl::StrCat("READY ", generation));
    const int rank = generation % kRanks;
    kill(static_cast<pid_t>(pipeline().ranks(rank).pid()), SIGKILL);
  }
  log_.wait_for(absl::StrCat("READY ", kGenerations + 1));
  EXPECT_EQ(count_joins(ask()), kRanks);
  supervisor_->stop();
  done = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace ferry
