#include "platform/distributed/in_process/in_process_group.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/distributed/host_communicator.h"
#include "platform/distributed/testing/rank_threads.h"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kGenerous = absl::Seconds(60);
constexpr absl::Duration kTiny = absl::Milliseconds(20);

// A group whose ranks have all joined.
class Ranks {
 public:
  explicit Ranks(int size, CallFaults faults = nullptr) {
    InProcessGroup group(size, std::move(faults));
    for (int rank = 0; rank < size; ++rank) ranks_.push_back(group.join(rank));
  }

  HostCommunicator& operator[](int rank) {
    return *ranks_[static_cast<size_t>(rank)];
  }
  void leave(int rank) { ranks_[static_cast<size_t>(rank)].reset(); }
  int size() const { return static_cast<int>(ranks_.size()); }

 private:
  std::vector<std::unique_ptr<HostCommunicator>> ranks_;
};

std::string message(const absl::Status& status) {
  return std::string(status.message());
}

// Calls all_reduce_or on every rank, each with its own timeout.
std::vector<absl::Status> reduce(Ranks& ranks,
                                 std::vector<absl::Duration> timeouts) {
  std::vector<absl::Status> statuses(timeouts.size());
  run_ranks(ranks.size(), [&](int rank) {
    const auto i = static_cast<size_t>(rank);
    statuses[i] = ranks[rank].all_reduce_or(1, timeouts[i]).status();
  });
  return statuses;
}

TEST(InProcessGroupTest, GathersInOrderOfRank) {
  for (const int size : {1, 2, 3, 5}) {
    Ranks ranks(size);
    run_ranks(size, [&](int rank) {
      EXPECT_EQ(ranks[rank].rank(), rank);
      EXPECT_EQ(ranks[rank].size(), size);
      for (int round = 0; round < 50; ++round) {
        const int64_t mine = 1000 * round + rank;
        std::vector<int64_t> all(static_cast<size_t>(size));
        ASSERT_TRUE(ranks[rank]
                        .all_gather(&mine, all.data(), sizeof mine, kGenerous)
                        .ok());
        for (int i = 0; i < size; ++i) {
          EXPECT_EQ(all[static_cast<size_t>(i)], 1000 * round + i);
        }
      }
    });
  }
}

TEST(InProcessGroupTest, ReducesBits) {
  Ranks ranks(3);
  run_ranks(3, [&](int rank) {
    for (int round = 0; round < 50; ++round) {
      const uint64_t mine = uint64_t{1} << (rank + round);
      EXPECT_EQ(*ranks[rank].all_reduce_or(mine, kGenerous),
                uint64_t{7} << round);
      EXPECT_EQ(*ranks[rank].all_reduce_or(0, kGenerous), 0u);
    }
  });
}

TEST(InProcessGroupTest, GathersTextsOfAnyLength) {
  Ranks ranks(3);
  run_ranks(3, [&](int rank) {
    const std::vector<std::string> texts = {"", std::string(1000, 'x'), "abc"};
    EXPECT_EQ(*all_gather_strings(ranks[rank], texts[static_cast<size_t>(rank)],
                                  kGenerous),
              texts);
    EXPECT_THAT(*all_gather_strings(ranks[rank], "", kGenerous),
                ElementsAre("", "", ""));
    EXPECT_TRUE(barrier(ranks[rank], kGenerous).ok());
  });
}

TEST(InProcessGroupTest, ATextThatIsTooLongIsRefusedBeforeAnythingIsSent) {
  Ranks ranks(1);
  const std::string text((16 << 20) + 1, 'x');
  EXPECT_EQ(all_gather_strings(ranks[0], text, kGenerous).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(barrier(ranks[0], kGenerous).ok());
}

TEST(InProcessGroupTest, ALengthThatNoTextHasIsRefused) {
  Ranks ranks(2);
  run_ranks(2, [&](int rank) {
    if (rank == 0) {
      const absl::Status status =
          all_gather_strings(ranks[0], "text", kGenerous).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(message(status), HasSubstr("rank 1"));
    } else {
      const int64_t length = -1;
      int64_t lengths[2];
      EXPECT_TRUE(
          ranks[1].all_gather(&length, lengths, sizeof length, kGenerous).ok());
    }
  });
}

TEST(InProcessGroupTest, SizesThatNoGroupCouldUseLeaveItUsable) {
  Ranks ranks(2);
  for (const int64_t bytes :
       {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(ranks[0].all_gather(nullptr, nullptr, bytes, kGenerous).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(ranks[0].status().ok());
  for (const absl::Status& status : reduce(ranks, {kGenerous, kGenerous})) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(InProcessGroupTest, ARankThatNeverAnswersIsNamed) {
  Ranks ranks(3, [](int rank, int64_t call) {
    CallFault fault;
    if (rank == 1 && call == 2) fault.kind = CallFault::Kind::kNeverArrives;
    return fault;
  });
  for (const absl::Status& status :
       reduce(ranks, {kGenerous, kGenerous, kGenerous})) {
    EXPECT_TRUE(status.ok()) << status;
  }
  for (const absl::Status& status :
       reduce(ranks, {kTiny, kGenerous, kGenerous})) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(message(status),
                HasSubstr("rank 1 did not come to call 2, all_reduce_or"));
  }
  // The first error stays.
  const absl::Status later = barrier(ranks[2], kGenerous);
  EXPECT_EQ(later.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(later, ranks[0].status());
}

TEST(InProcessGroupTest, ARankThatNeverAnswersReturnsAtItsOwnTimeout) {
  Ranks ranks(2, [](int rank, int64_t) {
    CallFault fault;
    if (rank == 1) fault.kind = CallFault::Kind::kNeverArrives;
    return fault;
  });
  for (const absl::Status& status : reduce(ranks, {kGenerous, kTiny})) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(message(status), HasSubstr("rank 1"));
  }
}

TEST(InProcessGroupTest, ASlowRankIsWaitedFor) {
  const absl::Duration delay = absl::Milliseconds(30);
  Ranks ranks(2, [&](int rank, int64_t) {
    CallFault fault;
    if (rank == 1) fault.delay = delay;
    return fault;
  });
  const absl::Time start = absl::Now();
  for (const absl::Status& status : reduce(ranks, {kGenerous, kGenerous})) {
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_GE(absl::Now() - start, delay);
}

TEST(InProcessGroupTest, ARankThatIsTooSlowIsADeadline) {
  Ranks ranks(2, [&](int rank, int64_t) {
    CallFault fault;
    if (rank == 1) fault.delay = absl::Hours(1);
    return fault;
  });
  for (const absl::Status& status : reduce(ranks, {kTiny, kGenerous})) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  }
}

TEST(InProcessGroupTest, ARankThatFailsEndsAllCalls) {
  Ranks ranks(3, [](int rank, int64_t call) {
    CallFault fault;
    if (rank == 2 && call == 1) fault.kind = CallFault::Kind::kFails;
    return fault;
  });
  for (const absl::Status& status :
       reduce(ranks, {kGenerous, kGenerous, kGenerous})) {
    EXPECT_EQ(status, absl::UnavailableError("rank 2 is gone"));
  }
}

TEST(InProcessGroupTest, ARankThatLeavesEndsTheCallsOfOthers) {
  Ranks ranks(2);
  std::thread other([&] {
    EXPECT_EQ(barrier(ranks[0], kGenerous),
              absl::UnavailableError("rank 1 is gone"));
  });
  ranks.leave(1);
  other.join();
}

TEST(InProcessGroupTest, AbortWakesEverybody) {
  Ranks ranks(3);
  std::vector<std::thread> threads;
  for (const int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      const absl::Status status = barrier(ranks[rank], kGenerous);
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(message(status), HasSubstr("rank 2 aborted: the reason"));
    });
  }
  ranks[2].abort("the reason");
  ranks[0].abort("a later one");
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(message(ranks[1].status()), HasSubstr("the reason"));
}

TEST(InProcessGroupTest, CallsThatDoNotMatchAreToldToAll) {
  const auto gather = [](HostCommunicator& rank, int64_t bytes) {
    std::string in(static_cast<size_t>(bytes), 'x');
    std::string out(3 * in.size(), ' ');
    return rank.all_gather(in.data(), out.data(), bytes, kGenerous);
  };
  for (const bool is_size : {true, false}) {
    Ranks ranks(3);
    run_ranks(3, [&](int rank) {
      ASSERT_TRUE(gather(ranks[rank], 16).ok());
      const bool is_odd_one = rank == 1;
      const absl::Status status = !is_odd_one ? gather(ranks[rank], 100)
                                  : is_size   ? gather(ranks[rank], 200)
                                              : barrier(ranks[rank], kGenerous);
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(message(status), HasSubstr("call 2"));
      EXPECT_THAT(message(status), HasSubstr("rank 1"));
      EXPECT_THAT(message(status), HasSubstr("all_gather of 100 bytes"));
      EXPECT_THAT(message(status), HasSubstr(is_size ? "all_gather of 200 bytes"
                                                     : "all_reduce_or"));
    });
  }
}

TEST(InProcessGroupTest, RandomDelaysChangeNothing) {
  constexpr int kSize = 4;
  Ranks ranks(kSize, [](int rank, int64_t call) {
    CallFault fault;
    fault.delay = absl::Microseconds((rank * 7919 + call * 104729) % 300);
    return fault;
  });
  run_ranks(kSize, [&](int rank) {
    for (int round = 0; round < 100; ++round) {
      EXPECT_EQ(*ranks[rank].all_reduce_or(uint64_t{1} << rank, kGenerous),
                15u);
      EXPECT_THAT(
          *all_gather_strings(ranks[rank], absl::StrCat(rank + round),
                              kGenerous),
          ElementsAre(absl::StrCat(round), absl::StrCat(round + 1),
                      absl::StrCat(round + 2), absl::StrCat(round + 3)));
    }
  });
}

}  // namespace
}  // namespace ferry
