#include "offload/distributed/start_vote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "platform/distributed/in_process/in_process_group.h"
#include "platform/distributed/testing/rank_threads.h"

namespace ferry {
namespace {

using testing::Each;

struct Ballot {
  absl::Status mine;
  std::string digest;
};

// What each rank hears.
std::vector<absl::Status> vote(const std::vector<Ballot>& ballots,
                               const CallFaults& faults = nullptr) {
  const int ranks = static_cast<int>(ballots.size());
  InProcessGroup group(ranks, faults);
  std::vector<absl::Status> heard(ballots.size());
  run_ranks(ranks, [&](int rank) {
    const auto i = static_cast<size_t>(rank);
    const auto communicator = group.join(rank);
    heard[i] = vote_on_start(*communicator, absl::Minutes(1), ballots[i].mine,
                             ballots[i].digest);
  });
  return heard;
}

TEST(StartVote, RanksThatAreWellAndAlikeGoOn) {
  EXPECT_THAT(vote({{{}, "same"}, {{}, "same"}, {{}, "same"}}),
              Each(absl::OkStatus()));
  // Spaces are the digest's own.
  EXPECT_THAT(vote({{{}, "a b"}, {{}, "a b"}}), Each(absl::OkStatus()));
}

TEST(StartVote, OneFailureIsTheErrorOfAll) {
  EXPECT_THAT(vote({{{}, "same"},
                    {absl::ResourceExhaustedError("no memory"), ""},
                    {{}, "same"}}),
              Each(absl::ResourceExhaustedError("rank 1: no memory")));
}

TEST(StartVote, TheFirstFailureGivesTheCodeAndAllAreNamed) {
  EXPECT_THAT(vote({{{}, "same"},
                    {absl::NotFoundError("no file"), ""},
                    {absl::InternalError("no device"), ""}}),
              Each(absl::NotFoundError("rank 1: no file; rank 2: no device")));
}

TEST(StartVote, WhatSeveralRanksSayIsSaidOnce) {
  const absl::Status again = absl::FailedPreconditionError("it runs again");
  EXPECT_THAT(
      vote({{again, ""}, {absl::InternalError("no device"), ""}, {again, ""}}),
      Each(absl::FailedPreconditionError(
          "ranks 0, 2: it runs again; rank 1: no device")));
}

// A group exchanges no text of more than 16 MiB.
TEST(StartVote, AMessageOfAnyLengthIsHeard) {
  const std::string endless(size_t{17} << 20, 'x');
  for (const absl::Status& heard :
       vote({{{}, "same"}, {absl::InternalError(endless), ""}})) {
    EXPECT_EQ(heard.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(heard.message(),
              "rank 1: " + endless.substr(0, size_t{64} << 10));
  }
}

TEST(StartVote, RanksThatDisagreeAreAllTold) {
  for (const absl::Status& heard :
       vote({{{}, "one"}, {{}, "other"}, {{}, "one"}})) {
    EXPECT_EQ(heard.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(heard.message()),
                testing::AllOf(testing::HasSubstr("ranks 0, 2: one"),
                               testing::HasSubstr("ranks 1: other")));
  }
}

TEST(StartVote, ARankThatIsLostIsTheErrorOfAll) {
  const auto lost = [](int rank, int64_t /*call*/) {
    CallFault fault;
    if (rank == 1) fault.kind = CallFault::Kind::kFails;
    return fault;
  };
  for (const absl::Status& heard : vote({{{}, "same"}, {{}, "same"}}, lost)) {
    EXPECT_FALSE(heard.ok());
  }
}

}  // namespace
}  // namespace ferry
