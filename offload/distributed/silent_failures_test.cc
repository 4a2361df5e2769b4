// Gathers and copies that fail without a word: their events are complete, their
// bytes are not there, and only who asks hears of it. A request that used them
// ends with an error, and never with other bytes than a rank alone gives.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/toy_group.h"
#include "offload/testing/toy_module.h"
#include "platform/base/clock.h"
#include "platform/device/simulated/fault_plan.h"
#include "platform/distributed/host_communicator.h"
#include "platform/distributed/in_process/in_process_group.h"
#include "platform/distributed/testing/rank_threads.h"

namespace ferry {
namespace {

using testing::Each;

constexpr int kPasses = 3;

ToyGroupOptions options_for(int ranks, bool checks) {
  ToyGroupOptions options;
  options.ranks = ranks;
  options.device = checked_device();
  // Without the checker nothing tells stale bytes from others.
  options.device.check = checks;
  // What counts its passes differs from pass to pass.
  options.toy.counts = true;
  return options;
}

// The bytes of a request of kPasses passes, each of what the one before gave,
// when the backend has said that they are right.
absl::StatusOr<std::string> make_request(ToyGroup& group, int rank) {
  PlacementBackend& backend = *group.rank(rank).backend;
  at::Tensor x = toy_input();
  absl::Status status;
  for (int pass = 0; pass < kPasses && status.ok(); ++pass) {
    if (pass == kPasses - 1) backend.begin_last_step();
    auto output = group.rank(rank).module->run(0, x);
    status = output.status();
    if (status.ok()) x = *std::move(output);
  }
  if (status.ok()) status = backend.check();
  backend.end_generation();
  if (!status.ok()) return status;
  return bytes_of(x);
}

std::string expected_bytes(ToyGroup& group) {
  at::Tensor x = toy_input();
  for (int pass = 0; pass < kPasses; ++pass) {
    x = *group.rank(0).twin->run(0, x);
  }
  return bytes_of(x);
}

// Who makes a request.
enum class Asks { kFirst, kLast, kAll };

bool asks(Asks who, int rank, int ranks) {
  if (who == Asks::kFirst) return rank == 0;
  return who == Asks::kAll || rank == ranks - 1;
}

// What the ranks that asked got, in order of rank.
std::vector<absl::StatusOr<std::string>> make_requests(ToyGroup& group,
                                                       Asks who) {
  std::vector<absl::StatusOr<std::string>> results(
      static_cast<size_t>(group.size()), absl::StatusOr<std::string>(""));
  run_ranks(group.size(), [&](int rank) {
    if (!asks(who, rank, group.size())) return;
    results[static_cast<size_t>(rank)] = make_request(group, rank);
  });
  std::vector<absl::StatusOr<std::string>> of_those;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (asks(who, rank, group.size())) {
      of_those.push_back(std::move(results[static_cast<size_t>(rank)]));
    }
  }
  return of_those;
}

// The group ends by itself, though nobody asks the rank for anything; no later
// request is served.
void expect_lost(ToyGroup& group) {
  for (int rank = 0; rank < group.size(); ++rank) {
    PlacementBackend& backend = *group.rank(rank).backend;
    const absl::Duration deadline =
        Clock::real().monotonic() + absl::Minutes(1);
    const HostCommunicator& control = *group.rank(rank).group.control;
    while (control.status().ok() && Clock::real().monotonic() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_FALSE(control.status().ok()) << "rank " << rank;
    EXPECT_FALSE(backend.check().ok()) << "rank " << rank;
    EXPECT_FALSE(make_request(group, rank).ok()) << "rank " << rank;
  }
}

class SilentFailuresTest
    : public testing::TestWithParam<std::tuple<int, Asks, bool>> {
 protected:
  static int ranks() { return std::get<0>(GetParam()); }
  static Asks who() { return std::get<1>(GetParam()); }
  static ToyGroupOptions options() {
    return options_for(ranks(), std::get<2>(GetParam()));
  }
  static int blocks() { return options().toy.blocks; }
  // Gathers of a rank until the last pass, and after it, counted from 1.
  static int first() { return (kPasses - 1) * blocks() + 1; }
  static int last() { return kPasses * blocks(); }
};

// Each gather of the last pass, as `kind` has it, on each rank. `for_all`: no
// rank has its bytes.
void expect_errors(const ToyGroupOptions& options, Asks who, int rank,
                   int64_t gather, CallFault::Kind kind, bool for_all) {
  SCOPED_TRACE(absl::StrCat("gather ", gather, " of rank ", rank));
  ToyGroupOptions faulty = options;
  faulty.weight_faults = [=](int r, int64_t call) {
    CallFault fault;
    if (r == rank && call == gather) fault.kind = kind;
    return fault;
  };
  ToyGroup group(faulty);
  const std::string expected = expected_bytes(group);
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  const auto results = make_requests(group, who);
  for (size_t i = 0; i < results.size(); ++i) {
    const int asked =
        who == Asks::kLast ? options.ranks - 1 : static_cast<int>(i);
    if (for_all || asked == rank) {
      EXPECT_FALSE(results[i].ok()) << "rank " << asked << " gave a picture";
    } else if (results[i].ok()) {
      EXPECT_EQ(*results[i], expected) << "rank " << asked;
    }
  }
  expect_lost(group);
}

TEST_P(SilentFailuresTest, AGatherThatIsAbortedIsAnErrorOfAllWhoComputed) {
  for (int rank = 0; rank < ranks(); ++rank) {
    for (int gather = first(); gather <= last(); ++gather) {
      expect_errors(options(), who(), rank, gather, CallFault::Kind::kFails,
                    /*for_all=*/true);
    }
  }
}

TEST_P(SilentFailuresTest, AGatherWhoseBytesOneRankLosesIsItsError) {
  for (int rank = 0; rank < ranks(); ++rank) {
    for (int gather = first(); gather <= last(); ++gather) {
      expect_errors(options(), who(), rank, gather,
                    CallFault::Kind::kLosesResult, /*for_all=*/false);
    }
  }
}

TEST_P(SilentFailuresTest, AGatherThatTakesTooLongIsAnErrorOfAll) {
  ToyGroupOptions impatient = options();
  impatient.timeout = absl::Milliseconds(100);
  for (const int gather : {first(), last()}) {
    expect_errors(impatient, who(), ranks() - 1, gather,
                  CallFault::Kind::kNeverArrives, /*for_all=*/true);
  }
}

// All ranks gather what one has not copied.
TEST_P(SilentFailuresTest, ACopyIsAnErrorOfAllWhoComputed) {
  for (int rank = 0; rank < ranks(); ++rank) {
    for (int copy = first(); copy <= last(); ++copy) {
      SCOPED_TRACE(absl::StrCat("copy ", copy, " of rank ", rank));
      ToyGroup group(options());
      ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
      group.rank(rank).platform->simulated_device().faults().fail(
          FaultPoint::kCopySilent, copy);
      for (const auto& result : make_requests(group, who())) {
        EXPECT_FALSE(result.ok()) << "gave a picture";
      }
      expect_lost(group);
    }
  }
}

std::string name_of(
    const testing::TestParamInfo<SilentFailuresTest::ParamType>& info) {
  static constexpr const char* kAsks[] = {"First", "Last", "All"};
  return absl::StrCat(std::get<0>(info.param), "Ranks",
                      kAsks[static_cast<int>(std::get<1>(info.param))], "Asks",
                      std::get<2>(info.param) ? "Checked" : "");
}

INSTANTIATE_TEST_SUITE_P(
    Groups, SilentFailuresTest,
    testing::Combine(testing::Values(2, 3),
                     testing::Values(Asks::kFirst, Asks::kLast, Asks::kAll),
                     testing::Bool()),
    name_of);

// Ranks that start find it before they are ready: copies of what stays.
TEST(SilentFailuresAtTheStartTest, EnableAsksForWhatItCopied) {
  ToyGroup group(options_for(2, /*checks=*/true));
  group.rank(1).platform->simulated_device().faults().fail(
      FaultPoint::kCopySilent, 1);
  for (const absl::Status& status : group.enable()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(status.message(), testing::HasSubstr("rank 1: "));
  }
}

}  // namespace
}  // namespace ferry
