// Ranks as threads.

#include "platform/distributed/gloo/gloo_communicator.h"

#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
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
#include "platform/distributed/gloo/gloo_options.h"
#include "platform/distributed/host_communicator.h"
#include "platform/distributed/in_process/in_process_store.h"
#include "platform/distributed/testing/rank_threads.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kGenerous = absl::Seconds(60);
constexpr absl::Duration kTiny = absl::Milliseconds(50);

void set_sigpipe(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  ASSERT_EQ(::sigaction(SIGPIPE, &action, nullptr), 0);
}

class GlooTest : public testing::Test {
 protected:
  GlooTest() { set_sigpipe(SIG_IGN); }

  // All ranks of a group, joined.
  void join(int size) {
    ranks_.resize(static_cast<size_t>(size));
    run_ranks(size, [&](int rank) {
      auto joined = join_gloo_group(store_, rank, size, GlooOptions{});
      ASSERT_TRUE(joined.ok()) << joined.status();
      ranks_[static_cast<size_t>(rank)] = *std::move(joined);
    });
  }
  HostCommunicator& rank(int rank) {
    return *ranks_[static_cast<size_t>(rank)];
  }

  InProcessStore store_;
  std::vector<std::unique_ptr<HostCommunicator>> ranks_;
};

absl::Status gather(HostCommunicator& rank, int64_t bytes,
                    absl::Duration timeout) {
  const std::string in(static_cast<size_t>(bytes),
                       static_cast<char>('a' + rank.rank()));
  std::string out(static_cast<size_t>(rank.size()) * in.size(), ' ');
  absl::Status status = rank.all_gather(in.data(), out.data(), bytes, timeout);
  if (!status.ok()) return status;
  for (int i = 0; i < rank.size(); ++i) {
    const auto begin = out.begin() + static_cast<int64_t>(i) * bytes;
    EXPECT_EQ(std::count(begin, begin + bytes, static_cast<char>('a' + i)),
              bytes);
  }
  return status;
}

std::string message(const absl::Status& status) {
  return std::string(status.message());
}

TEST_F(GlooTest, GathersAndReduces) {
  for (const int size : {1, 2, 3, 4}) {
    InProcessStore store;
    run_ranks(size, [&](int index) {
      auto joined = join_gloo_group(store, index, size, GlooOptions{});
      ASSERT_TRUE(joined.ok()) << joined.status();
      HostCommunicator& rank = **joined;
      EXPECT_EQ(rank.rank(), index);
      EXPECT_EQ(rank.size(), size);
      for (const int64_t bytes : {1, 8, 4096, 100003, 3 << 20, 1}) {
        ASSERT_TRUE(gather(rank, bytes, kGenerous).ok());
        EXPECT_EQ(*rank.all_reduce_or(uint64_t{1} << index, kGenerous),
                  (uint64_t{1} << size) - 1);
        EXPECT_EQ(*rank.all_reduce_or(0, kGenerous), 0u);
      }
      std::vector<std::string> expected;
      for (int i = 0; i < size; ++i) expected.emplace_back(i * 10, 'x');
      EXPECT_EQ(*all_gather_strings(rank, expected[static_cast<size_t>(index)],
                                    kGenerous),
                expected);
    });
  }
}

TEST_F(GlooTest, AVoteIsCheap) {
  join(4);
  constexpr int kVotes = 300;
  run_ranks(4, [&](int index) {
    std::vector<double> times;
    for (int i = 0; i < kVotes; ++i) {
      const absl::Time start = absl::Now();
      ASSERT_TRUE(rank(index).all_reduce_or(1, kGenerous).ok());
      times.push_back(absl::ToDoubleMicroseconds(absl::Now() - start));
    }
    std::sort(times.begin(), times.end());
    if (index == 0) {
      std::printf("a vote of 4 ranks: %.0f us (p50), %.0f us (p90)\n",
                  times[kVotes / 2], times[kVotes * 9 / 10]);
    }
  });
}

TEST_F(GlooTest, ARankThatDoesNotComeIsNamed) {
  join(3);
  std::vector<std::thread> threads;
  for (const int index : {0, 1}) {
    threads.emplace_back([&, index] {
      const absl::Status status =
          gather(rank(index), 1000, index == 0 ? kTiny : kGenerous);
      // The one whose time is over tells whom it waited for, and closes.
      if (index == 0) {
        EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
        EXPECT_THAT(message(status), HasSubstr("rank 2 did not come to call 1, "
                                               "all_gather of 1000 bytes"));
      } else {
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
        EXPECT_THAT(message(status), HasSubstr("lost rank 0"));
      }
      EXPECT_EQ(barrier(rank(index), kGenerous), status);
      EXPECT_EQ(rank(index).status(), status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Whoever comes later learns that it is too late.
  EXPECT_EQ(barrier(rank(2), kGenerous).code(), absl::StatusCode::kUnavailable);
}

TEST_F(GlooTest, ARankThatLeavesEndsTheCallsOfOthers) {
  join(3);
  std::vector<std::thread> threads;
  for (const int index : {0, 1}) {
    threads.emplace_back([&, index] {
      const absl::Status status = barrier(rank(index), kGenerous);
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_THAT(message(status), HasSubstr("in call 1, all_reduce_or"));
    });
  }
  ranks_[2].reset();
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GlooTest, NothingIsLostWhenARankLeavesAfterItsLastCall) {
  for (int round = 0; round < 10; ++round) {
    InProcessStore store;
    run_ranks(3, [&](int index) {
      auto joined = join_gloo_group(store, index, 3, GlooOptions{});
      ASSERT_TRUE(joined.ok()) << joined.status();
      EXPECT_TRUE(gather(**joined, 200000, kGenerous).ok());
      const absl::Status status = barrier(**joined, kGenerous);
      EXPECT_TRUE(status.ok()) << status;
    });
  }
}

TEST_F(GlooTest, AbortWakesThisRankAndTheOthers) {
  join(3);
  // What a rank tells reaches those that have made a call with it.
  run_ranks(
      3, [&](int index) { ASSERT_TRUE(barrier(rank(index), kGenerous).ok()); });
  std::vector<std::thread> threads;
  for (const int index : {0, 1}) {
    threads.emplace_back([&, index] {
      const absl::Status status = gather(rank(index), 1 << 20, kGenerous);
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_THAT(message(status), HasSubstr("rank 1 aborted: enough"));
    });
  }
  rank(1).abort("enough");
  rank(1).abort("more than that");
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(gather(rank(1), 1, kGenerous), rank(1).status());
  EXPECT_EQ(barrier(rank(2), kGenerous).code(), absl::StatusCode::kUnavailable);
}

TEST_F(GlooTest, CallsThatDoNotMatchAreTold) {
  for (const bool is_size : {true, false}) {
    InProcessStore store;
    run_ranks(3, [&](int index) {
      auto joined = join_gloo_group(store, index, 3, GlooOptions{});
      ASSERT_TRUE(joined.ok()) << joined.status();
      HostCommunicator& rank = **joined;
      ASSERT_TRUE(gather(rank, 16, kGenerous).ok());
      const absl::Status status = index != 1 ? gather(rank, 100000, kGenerous)
                                  : is_size  ? gather(rank, 200000, kGenerous)
                                             : barrier(rank, kGenerous);
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
      EXPECT_THAT(message(status), HasSubstr("call 2"));
      EXPECT_THAT(message(status),
                  HasSubstr("rank 0 calls all_gather of 100000 bytes"));
      EXPECT_THAT(message(status), HasSubstr("rank 1"));
      EXPECT_THAT(
          message(status),
          HasSubstr(is_size ? "all_gather of 200000 bytes" : "all_reduce_or"));
    });
  }
}

TEST_F(GlooTest, SizesThatNoGroupCouldUseLeaveItUsable) {
  join(2);
  EXPECT_EQ(rank(0).all_gather(nullptr, nullptr, 0, kGenerous).code(),
            absl::StatusCode::kInvalidArgument);
  run_ranks(2, [&](int index) {
    EXPECT_TRUE(gather(rank(index), 10, kGenerous).ok());
  });
}

TEST_F(GlooTest, ARankThatNeverJoinsIsNamed) {
  GlooOptions options;
  options.timeout = absl::Milliseconds(100);
  run_ranks(2, [&](int index) {
    const absl::Status status =
        join_gloo_group(store_, index, 3, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(message(status), HasSubstr("rank 2"));
    EXPECT_THAT(message(status), HasSubstr("gloo/2"));
  });
}

TEST_F(GlooTest, ALateRankIsWaitedFor) {
  std::thread early([&] {
    auto joined = join_gloo_group(store_, 0, 2, GlooOptions{});
    ASSERT_TRUE(joined.ok()) << joined.status();
    EXPECT_TRUE(barrier(**joined, kGenerous).ok());
  });
  // The early one has told where it is, and waits.
  ASSERT_TRUE(store_.get("gloo/0", kGenerous).ok());
  auto joined = join_gloo_group(store_, 1, 2, GlooOptions{});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_TRUE(barrier(**joined, kGenerous).ok());
  early.join();
}

TEST_F(GlooTest, ListensWhereItIsTold) {
  for (const bool by_interface : {false, true}) {
    InProcessStore store;
    run_ranks(2, [&](int index) {
      GlooOptions options;
      options.address = absl::StrCat("127.0.0.", 1 + index);
      if (by_interface) options.interface = "lo";
      auto joined = join_gloo_group(store, index, 2, options);
      ASSERT_TRUE(joined.ok()) << joined.status();
      EXPECT_TRUE(gather(**joined, 1000, kGenerous).ok());
    });
  }
}

TEST_F(GlooTest, AnAddressThatIsNotThisHostsIsRefused) {
  GlooOptions options;
  options.address = "192.0.2.1";
  absl::Status status = join_gloo_group(store_, 0, 2, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(message(status), HasSubstr("192.0.2.1"));
  options.interface = "nosuch0";
  status = join_gloo_group(store_, 0, 2, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(message(status), HasSubstr("nosuch0"));
}

TEST_F(GlooTest, SigpipeMustBeIgnored) {
  set_sigpipe(SIG_DFL);
  const absl::Status status =
      join_gloo_group(store_, 0, 1, GlooOptions{}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message(status), HasSubstr("SIGPIPE"));
}

}  // namespace
}  // namespace ferry
