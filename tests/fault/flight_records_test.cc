// What the ranks of a group did together, read while it works, while it joins,
// and while it waits for one of them.

#include <signal.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/base/clock.h"
#include "tests/fault/faults.h"
#include "tests/fault/group_fixture.h"
#include "tests/fault/sharing_options.h"
#include "tests/support/child_process.h"
#include "tests/support/error_details.h"
#include "tests/support/files.h"

namespace ferry {
namespace {

using ::testing::SizeIs;
using v1::FlightRecord;
using v1::GetFlightRecordsResponse;

// What the API promises, also of a rank that does not answer.
constexpr absl::Duration kLongest = absl::Seconds(2);

class FlightRecordsTest : public GroupFixture {
 protected:
  static constexpr int kRanks = 3;

  // Ranks that gather weights.
  Daemon::Options options() const {
    Daemon::Options options = sharing_options(faults_, "allgather");
    options.flags.push_back(absl::StrCat("--ranks=", kRanks));
    return options;
  }

  static GetFlightRecordsResponse ask(Daemon& daemon) {
    grpc::ClientContext context;
    v1::GetFlightRecordsRequest request;
    request.set_name(kPipeline);
    GetFlightRecordsResponse response;
    const absl::Duration start = Clock::real().monotonic();
    const grpc::Status status = daemon.pipeline_service().GetFlightRecords(
        &context, request, &response);
    EXPECT_LT(Clock::real().monotonic() - start, kLongest);
    EXPECT_TRUE(status.ok()) << describe(status);
    return response;
  }

  // The latest operation of one rank; one without a number if there is none.
  static FlightRecord latest(const GetFlightRecordsResponse& response, int rank,
                             const std::string& group) {
    if (rank >= response.ranks_size()) return {};
    for (const v1::GroupFlightRecords& each : response.ranks(rank).groups()) {
      if (each.group() == group && !each.records().empty()) {
        return *each.records().rbegin();
      }
    }
    return {};
  }

  // Whether all ranks have ended the same operation of a group as their latest.
  static bool rests(const GetFlightRecordsResponse& response,
                    const std::string& group) {
    const FlightRecord first = latest(response, 0, group);
    bool rests = first.number() > 1;
    for (int rank = 0; rank < kRanks; ++rank) {
      const FlightRecord other = latest(response, rank, group);
      rests = rests && other.state() == FlightRecord::STATE_ENDED &&
              other.number() == first.number();
    }
    return rests;
  }

  // Waits until the group is idle, and what ranks did in its last wave has
  // ended.
  static GetFlightRecordsResponse ask_at_rest(Daemon& daemon) {
    GetFlightRecordsResponse response;
    EXPECT_TRUE(eventually([&] {
      response = ask(daemon);
      return rests(response, "votes") && rests(response, "weights");
    })) << response.ShortDebugString();
    return response;
  }

  // What an operation is, on whatever rank.
  static std::vector<std::string> operations(
      const v1::GroupFlightRecords& group) {
    std::vector<std::string> operations;
    for (const FlightRecord& record : group.records()) {
      operations.push_back(absl::StrCat("#", record.number(), " ",
                                        record.kind(), " ", record.bytes()));
    }
    return operations;
  }

  static bool waits(const FlightRecord& record) {
    return record.state() == FlightRecord::STATE_STARTED &&
           record.took().seconds() > 0;
  }

  Faults faults_;
};

TEST_F(FlightRecordsTest, EveryRankHasDoneTheSame) {
  Daemon& daemon = start_ready(options());
  for (const auto& call : start_calls(daemon, 2, 3)) {
    EXPECT_TRUE(call->finish().ok()) << describe(call->finish());
  }
  const GetFlightRecordsResponse response = ask_at_rest(daemon);
  EXPECT_EQ(response.generation(), 1);
  ASSERT_THAT(response.ranks(), SizeIs(kRanks));
  int64_t lines = 1;
  for (const v1::RankFlightRecords& rank : response.ranks()) {
    EXPECT_FALSE(rank.has_error());
    ASSERT_THAT(rank.groups(), SizeIs(3));
    for (int i = 0; i < 3; ++i) {
      const std::vector<std::string> groups = {"votes", "weights", "choice"};
      EXPECT_EQ(rank.groups(i).group(), groups[static_cast<size_t>(i)]);
      EXPECT_EQ(operations(rank.groups(i)),
                operations(response.ranks(0).groups(i)));
      lines += rank.groups(i).records_size();
    }
  }
  EXPECT_GT(latest(response, 0, "weights").bytes(), 0);
  EXPECT_EQ(operations(response.ranks(0).groups(0))[0], "#1 join 0");

  ChildProcess::Options command;
  command.arguments = {runfile("client/ferryctl"),
                       absl::StrCat("--address=", daemon.address()),
                       "pipelines", "flight-records", "group"};
  const ProcessResult result = run_process(command);
  EXPECT_EQ(result.exit.code, 0) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), lines)
      << result.out;
}

TEST_F(FlightRecordsTest, ARankThatIsStoppedShowsInWhatTheOthersWaitFor) {
  Daemon& daemon = start_ready(options());
  const pid_t stopped = find_rank(daemon, 1, 1);
  ASSERT_NE(stopped, 0);
  kill(stopped, SIGSTOP);
  // One for each rank, also the one that is stopped.
  const Calls calls = start_calls(daemon, kRanks, 2);
  GetFlightRecordsResponse response;
  EXPECT_TRUE(eventually([&] {
    response = ask(daemon);
    return waits(latest(response, 0, "votes")) &&
           waits(latest(response, 2, "votes"));
  })) << response.ShortDebugString();
  ASSERT_THAT(response.ranks(), SizeIs(kRanks));
  EXPECT_EQ(latest(response, 0, "votes").number(),
            latest(response, 2, "votes").number());
  EXPECT_EQ(response.ranks(1).error().code(),
            static_cast<int>(grpc::StatusCode::DEADLINE_EXCEEDED));
  EXPECT_THAT(response.ranks(1).groups(), SizeIs(0));
  kill(stopped, SIGCONT);
  for (const auto& call : calls) {
    EXPECT_TRUE(call->finish().ok()) << describe(call->finish());
  }
  EXPECT_FALSE(ask_at_rest(daemon).ranks(1).has_error());
}

TEST_F(FlightRecordsTest, RanksThatJoinAreAsked) {
  faults_.arm("hang@join_group");
  Daemon& daemon = start(options());
  ASSERT_TRUE(daemon.wait_until_listening()) << daemon.log();
  ASSERT_TRUE(faults_.wait_for_hit());
  GetFlightRecordsResponse response;
  EXPECT_TRUE(eventually([&] {
    response = ask(daemon);
    bool join = true;
    for (int rank = 0; rank < kRanks; ++rank) {
      join = join && latest(response, rank, "votes").kind() == "join" &&
             waits(latest(response, rank, "votes"));
    }
    return join;
  })) << response.ShortDebugString();
  EXPECT_EQ(response.generation(), 1);
  EXPECT_EQ(daemon.get_pipeline(kPipeline).state(),
            v1::Pipeline::STATE_LOADING);
  faults_.disarm();
  ASSERT_TRUE(daemon.wait_until_ready()) << daemon.log();
  response = ask(daemon);
  for (const v1::RankFlightRecords& rank : response.ranks()) {
    ASSERT_THAT(rank.groups(), SizeIs(3));
    for (const v1::GroupFlightRecords& group : rank.groups()) {
      EXPECT_EQ(group.records(0).kind(), "join");
      EXPECT_EQ(group.records(0).state(), FlightRecord::STATE_ENDED);
    }
  }
}

}  // namespace
}  // namespace ferry
