// Groups that choose for themselves whether they gather.

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "offload/distributed/shared_images.h"
#include "offload/offload_config.h"
#include "offload/offload_stats.h"
#include "offload/offloadable_module.h"
#include "offload/placement_backend.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/throwing_module.h"
#include "offload/testing/toy_group.h"
#include "offload/testing/toy_module.h"
#include "platform/base/status_macros.h"
#include "platform/device/device_arena.h"
#include "platform/device/host_arena.h"
#include "platform/device/simulated/fault_plan.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/device/simulated/simulated_platform.h"
#include "platform/device/stream_lease.h"
#include "platform/distributed/in_process/in_process_group.h"
#include "platform/distributed/testing/rank_threads.h"
#include "platform/os/unique_fd.h"

namespace ferry {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int kRanks = 4;
// Of a block: then its pass takes longer than what confirming_options() copies.
constexpr absl::Duration kLong = absl::Milliseconds(30);

// Half of the weights fit. A copy of the others takes some 8 ms, or what it
// takes with another rate.
ToyGroupOptions automatic_options(double gather_gbps, double h2d_gbps = 0.005) {
  at::set_num_threads(1);
  ToyGroupOptions options;
  options.ranks = kRanks;
  options.device = checked_device();
  options.device.memory_bytes = 22'016;
  options.device.h2d_gbps = h2d_gbps;
  options.gather_gbps = gather_gbps;
  options.automatic = true;
  options.shares_images = true;
  options.toy.blocks = 9;
  options.toy.counts = false;
  return options;
}

// Whatever is asked of the device from there on fails.
void lose(SimulatedDevice& device) {
  device.faults().fail(FaultPoint::kCopyRun, 1);
  const DeviceArena slot = *device.allocate(512, "slot");
  const HostArena image = *device.allocate_host(512, "image");
  const StreamLease stream =
      *device.acquire_stream(StreamKind::kTransfer, "copy");
  (void)device.copy_async(
      stream.get(), {CopyKind::kHostToDevice, slot.data(), image.data(), 512});
  EXPECT_FALSE(device.synchronize(stream.get()).ok());
}

// All ranks have chosen the same, for the same reason, and compute what one
// does.
void expect_alike(ToyGroup& group, const std::string& reason) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const PlacementBackend& backend = *group.rank(rank).backend;
    EXPECT_EQ(backend.strategy(), OffloadStrategy::kDistributedLayerWise);
    EXPECT_EQ(backend.reason(), group.rank(0).backend->reason());
    EXPECT_THAT(backend.reason(), HasSubstr(reason));
  }
  run_ranks(kRanks, [&](int rank) { group.expect_request(rank, 1 + rank); });
  EXPECT_THAT(group.violations(), IsEmpty());
}

void expect_agreement(ToyGroup& group, const std::string& reason) {
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  expect_alike(group, reason);
}

// For a pass, to gather takes some 50 ms, and to copy some 180 ms, so that much
// can come between when they are measured.
ToyGroupOptions confirming_options(absl::Duration block_time) {
  ToyGroupOptions options =
      automatic_options(/*gather_gbps=*/5, /*h2d_gbps=*/0.0002);
  options.confirms = true;
  options.block_time = block_time;
  return options;
}

// Two passes.
absl::Status run_request(ToyGroup& group, int rank) {
  ToyModule& module = *group.rank(rank).module;
  absl::Status status = module.run(0, toy_input()).status();
  if (status.ok()) status = module.run(0, toy_input()).status();
  group.rank(rank).backend->end_generation();
  return status;
}

// Gathers, whatever the blocks will take.
void enable_gathering(ToyGroup& group) {
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  ASSERT_THAT(group.rank(0).backend->reason(), HasSubstr("; ranks gather: "));
}

void enable_and_confirm(ToyGroup& group) {
  enable_gathering(group);
  ASSERT_THAT(group.confirm([&](int rank) { return run_request(group, rank); }),
              Each(absl::OkStatus()));
}

void expect_gathers(ToyGroup& group) {
  expect_alike(group, "; ranks gather: for a pass, ");
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_GT(group.rank(rank).backend->stats().gathered_bytes, 0);
    EXPECT_EQ(group.rank(rank).group.choice, nullptr);
    EXPECT_FALSE(group.rank(rank).group.images.valid());
  }
}

void expect_copies(ToyGroup& group,
                   const std::string& reason = "for a pass, ") {
  const int64_t waves = group.waves();
  expect_alike(group, "; each rank copies for itself: ");
  EXPECT_THAT(group.rank(0).backend->reason(), HasSubstr(reason));
  EXPECT_EQ(group.waves(), waves);
  for (int rank = 0; rank < kRanks; ++rank) {
    const PlacementBackend& backend = *group.rank(rank).backend;
    EXPECT_EQ(backend.stats().gathered_bytes, 0);
    EXPECT_GT(backend.stats().streamed_bytes, 0);
    EXPECT_EQ(group.rank(rank).backend->wave_participant(), nullptr);
    EXPECT_EQ(group.rank(rank).group.weights, nullptr);
    EXPECT_EQ(group.rank(rank).group.choice, nullptr);
    EXPECT_FALSE(group.rank(rank).group.images.valid());
  }
}

TEST(AutomaticGroupTest, GathersWhereThatIsFaster) {
  // By far, even where ranks wait for a core.
  ToyGroup group(automatic_options(/*gather_gbps=*/5, /*h2d_gbps=*/0.0002));
  expect_agreement(group, "; ranks gather: for a pass, to gather ");
  EXPECT_GT(group.rank(0).backend->stats().gathered_bytes, 0);
}

TEST(AutomaticGroupTest, EachCopiesWhereGathersAreSlow) {
  ToyGroup group(automatic_options(/*gather_gbps=*/0.0005));
  expect_agreement(group, "; each rank copies for itself: for a pass, ");
  const OffloadStats stats = group.rank(0).backend->stats();
  EXPECT_EQ(stats.gathered_bytes, 0);
  EXPECT_GT(stats.streamed_bytes, 0);
  EXPECT_EQ(group.waves(), 0);
}

TEST(AutomaticGroupTest, EachCopiesWhereSlotsForGathersDoNotFit) {
  ToyGroupOptions options = automatic_options(/*gather_gbps=*/5);
  options.device.memory_bytes = 16'384;
  ToyGroup group(options);
  expect_agreement(group,
                   "; each rank copies for itself: encode_prompt needs ");
}

TEST(AutomaticGroupTest, EachCopiesWhereNothingCanBeMeasured) {
  ToyGroup group(automatic_options(/*gather_gbps=*/5));
  group.rank(2).platform->simulated_device().faults().fail(
      FaultPoint::kAllocateHost, 1);
  expect_agreement(group, "; each rank copies for itself: rank 2: ");
}

// Whatever it is that fails, all ranks make the same calls.
TEST(AutomaticGroupTest, EachCopiesWhereOneCannotMeasure) {
  const auto expect_copies = [](FaultPoint point, int64_t nth) {
    ToyGroup group(automatic_options(/*gather_gbps=*/5));
    group.rank(2).platform->simulated_device().faults().fail(point, nth);
    expect_agreement(group, "; each rank copies for itself: rank 2: ");
  };
  // Alone, together with the others, of what is gathered, and beside gathers.
  for (const int64_t nth : {1, 4, 5, 8, 9, 10, 13}) {
    expect_copies(FaultPoint::kCopy, nth);
  }
  // After these, after gathers, and after what was beside them.
  for (const int64_t nth : {1, 2, 3, 4, 5}) {
    expect_copies(FaultPoint::kSynchronize, nth);
  }
}

TEST(AutomaticGroupTest, ADeviceThatIsLostBeforeIsTheErrorOfAll) {
  ToyGroup group(automatic_options(/*gather_gbps=*/5));
  SimulatedDevice& device = group.rank(2).platform->simulated_device();
  lose(device);
  ASSERT_FALSE(device.memory_info().ok());
  for (const absl::Status& status : group.enable()) {
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2: "));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("match")));
  }
}

TEST(AutomaticGroupTest, NothingIsMeasuredWhereEverythingFits) {
  ToyGroupOptions options = automatic_options(/*gather_gbps=*/5);
  options.device.memory_bytes = checked_device().memory_bytes;
  ToyGroup group(options);
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  EXPECT_EQ(group.rank(1).backend->strategy(), OffloadStrategy::kNone);
  EXPECT_THAT(group.rank(1).backend->reason(), Not(HasSubstr("measured")));
}

// Devices are joined for what is gathered, once on all ranks, and not before.
TEST(AutomaticGroupTest, DevicesAreNotJoinedWhereEverythingFits) {
  for (const bool fits : {true, false}) {
    ToyGroupOptions options = automatic_options(/*gather_gbps=*/5);
    options.joins_late = true;
    if (fits) options.device.memory_bytes = checked_device().memory_bytes;
    ToyGroup group(options);
    ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(group.rank(rank).joins, fits ? 0 : 1);
      EXPECT_EQ(group.rank(rank).group.join_devices, nullptr);
      EXPECT_EQ(group.rank(rank).group.weights == nullptr, fits);
    }
  }
}

TEST(AutomaticGroupTest, WhoDoesNotGatherKeepsNoDevicesJoined) {
  for (const bool late : {true, false}) {
    ToyGroupOptions options = automatic_options(/*gather_gbps=*/0.0005);
    options.joins_late = late;
    ToyGroup group(options);
    expect_agreement(group, "; each rank copies for itself: for a pass, ");
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(group.rank(rank).group.weights, nullptr);
    }
  }
}

TEST(AutomaticGroupTest, DevicesThatCannotBeJoinedAreDoneWithout) {
  ToyGroupOptions options = automatic_options(/*gather_gbps=*/5);
  options.joins_late = true;
  ToyGroup group(options);
  for (int rank = 0; rank < kRanks; ++rank) {
    group.rank(rank).group.join_devices = [] { return absl::OkStatus(); };
  }
  expect_agreement(group,
                   "; each rank copies for itself: the devices cannot "
                   "be joined");
}

// What joins devices takes memory of theirs, which is not planned with.
TEST(AutomaticGroupTest, MemoryThatJoiningTakesIsLeftAlone) {
  ToyGroupOptions options = automatic_options(/*gather_gbps=*/5);
  options.joins_late = true;
  ToyGroup group(options);
  std::vector<DeviceArena> taken(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    auto& join = group.rank(rank).group.join_devices;
    join = [&, rank, join] {
      taken[static_cast<size_t>(rank)] =
          *group.rank(rank).platform->device()->allocate(4096, "a buffer");
      return join();
    };
  }
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  EXPECT_THAT(group.rank(0).backend->reason(),
              HasSubstr(absl::StrCat("of ", 22'016 - 4096, " free bytes")));
  EXPECT_THAT(group.violations(), IsEmpty());
}

// What was asked for stands.
TEST(AutomaticGroupTest, NothingIsMeasuredForThosePoliciesThatSay) {
  for (const bool gathers : {false, true}) {
    ToyGroupOptions options = automatic_options(/*gather_gbps=*/5);
    options.automatic = false;
    options.gathers = gathers;
    ToyGroup group(options);
    ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
    EXPECT_EQ(group.rank(0).backend->reason(), "asked for");
  }
}

TEST(AutomaticGroupTest, GathersOnWhereComputeIsShort) {
  ToyGroup group(confirming_options(absl::Milliseconds(1)));
  const UniqueFd file(::dup(group.rank(0).group.images.get()));
  enable_and_confirm(group);
  expect_gathers(group);
  // It is final.
  EXPECT_GT(::lseek(file.get(), 0, SEEK_END), 0);
  EXPECT_FALSE(SharedImages::clear(file.get()).ok());
  EXPECT_THAT(group.rank(3).backend->reason(),
              HasSubstr("; to run its 9 blocks takes "));
}

TEST(AutomaticGroupTest, EachCopiesWhereComputeIsLong) {
  ToyGroup group(confirming_options(kLong));
  enable_and_confirm(group);
  expect_copies(group);
  EXPECT_THAT(group.rank(3).backend->reason(),
              HasSubstr("; to run its 9 blocks takes "));
}

TEST(AutomaticGroupTest, PlacedAgainTheHostHoldsOneCopy) {
  ToyGroupOptions options = confirming_options(kLong);
  options.toy.vaes = 1;
  options.device.memory_bytes += 8192;
  ToyGroup group(options);
  const UniqueFd file(::dup(group.rank(0).group.images.get()));
  enable_and_confirm(group);
  const OffloadStats one = group.rank(0).backend->stats();
  const int64_t weights = one.resident_bytes + one.streamed_bytes;
  int64_t host_bytes = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    host_bytes += group.rank(rank).backend->stats().host_bytes;
    EXPECT_EQ(
        group.rank(rank).platform->simulated_device().stats().host.bytes_in_use,
        0);
  }
  EXPECT_EQ(host_bytes, weights);
  EXPECT_GE(::lseek(file.get(), 0, SEEK_END), weights);
  // It is final.
  EXPECT_FALSE(SharedImages::clear(file.get()).ok());
  expect_copies(group);
}

// The least counts, on all of them.
TEST(AutomaticGroupTest, RanksThatMeasureDifferentlyDecideAlike) {
  for (const int quick : {2, kRanks}) {
    ToyGroup group(confirming_options(kLong));
    for (int rank = 0; rank < kRanks; ++rank) {
      group.rank(rank).module->set_block_time(
          rank == quick ? absl::Milliseconds(1)
                        : kLong + absl::Milliseconds(2 * rank));
    }
    enable_and_confirm(group);
    if (quick < kRanks) {
      expect_gathers(group);
    } else {
      expect_copies(group);
    }
  }
}

// What was measured of some blocks stands for all, by their bytes.
TEST(AutomaticGroupTest, ComputeIsThatOfAWholePassOverAllDits) {
  // Shares come to the device every 6 ms.
  ToyGroupOptions options = confirming_options(absl::Milliseconds(1));
  options.toy.dits = 2;
  options.device.memory_bytes *= 2;
  ToyGroup group(options);
  enable_gathering(group);
  const auto run = [&](int rank) {
    ToyModule& module = *group.rank(rank).module;
    absl::Status status = module.run(0, toy_input()).status();
    if (status.ok()) status = module.run(1, toy_input(), {0, 1, 5}).status();
    group.rank(rank).backend->end_generation();
    return status;
  };
  ASSERT_THAT(group.confirm(run), Each(absl::OkStatus()));
  double pass = 0;
  double block = 0;
  const std::string reason = group.rank(1).backend->reason();
  const size_t at = reason.find("to run its 18 blocks takes ");
  ASSERT_NE(at, std::string::npos) << reason;
  ASSERT_EQ(std::sscanf(reason.c_str() + at,
                        "to run its 18 blocks takes %lf ms at the smallest "
                        "request, %lf ms a block",
                        &pass, &block),
            2)
      << reason;
  EXPECT_GE(block, 1);
  // Without the waits for them.
  EXPECT_LT(block, 5);
  EXPECT_NEAR(pass, 18 * block, 0.1);
}

// The first run is not measured. Nothing is measured where the choice was the
// operator's, and nothing tried where it is not to gather.
TEST(AutomaticGroupTest, RunsTwiceWhereItGathersOfItself) {
  ToyGroupOptions slow_gathers = confirming_options(absl::ZeroDuration());
  slow_gathers.gather_gbps = 0.00005;
  ToyGroupOptions asked_for = confirming_options(absl::ZeroDuration());
  asked_for.automatic = false;
  for (const auto& [options, runs] :
       std::vector<std::pair<ToyGroupOptions, int>>{
           {confirming_options(absl::ZeroDuration()), 2},
           {slow_gathers, 0},
           {asked_for, 1}}) {
    ToyGroup group(options);
    ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
    std::vector<int> count(kRanks);
    const auto run = [&, &runs = runs](int rank) {
      ToyModule& module = *group.rank(rank).module;
      const bool is_last = ++count[static_cast<size_t>(rank)] == runs;
      module.set_block_time(is_last ? absl::ZeroDuration() : kLong);
      return run_request(group, rank);
    };
    ASSERT_THAT(group.confirm(run), Each(absl::OkStatus()));
    EXPECT_THAT(count, Each(runs));
    // Had the first one counted, it would have been placed again.
    EXPECT_EQ(group.rank(0).backend->wave_participant() != nullptr,
              runs == 2 || !options.automatic);
  }
}

// Whatever fails while they gather, and leaves the group well.
TEST(AutomaticGroupTest, EachCopiesWhereOneCannotRunGathered) {
  for (const int failing_run : {1, 2}) {
    for (const int failing_rank : {0, 2, kRanks}) {
      ToyGroup group(confirming_options(absl::Milliseconds(1)));
      enable_gathering(group);
      std::vector<int> runs(kRanks);
      const auto run = [&](int rank) {
        const bool fails = ++runs[static_cast<size_t>(rank)] == failing_run &&
                           (failing_rank == rank || failing_rank == kRanks);
        const absl::Status status = run_request(group, rank);
        return fails ? absl::ResourceExhaustedError("no memory") : status;
      };
      ASSERT_THAT(group.confirm(run), Each(absl::OkStatus()));
      const std::string who = failing_rank == kRanks
                                  ? "ranks 0, 1, 2, 3"
                                  : absl::StrCat("rank ", failing_rank);
      expect_copies(group,
                    absl::StrCat("was tried with the smallest request, and "
                                 "failed: ",
                                 who, ": no memory"));
    }
  }
}

using Order = std::vector<size_t>;

// A pass of the first component over its blocks in this order.
absl::Status run_in_order(ToyGroup& group, int rank, const Order& order) {
  const absl::Status status =
      group.rank(rank).module->run(0, toy_input(), order).status();
  group.rank(rank).backend->end_generation();
  return status;
}

const std::vector<Order>& orders_that_cannot_be_gathered() {
  static const auto& orders = *new std::vector<Order>{
      // Each block twice in a row, all of them twice, backwards, and one that
      // comes back.
      {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8},
      {0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8},
      {8, 7, 6, 5, 4, 3, 2, 1, 0},
      {0, 1, 2, 3, 4, 5, 6, 7, 8, 4}};
  return orders;
}

TEST(AutomaticGroupTest, EachCopiesWhereBlocksRunAgainOrBackwards) {
  for (const Order& order : orders_that_cannot_be_gathered()) {
    ToyGroup group(confirming_options(absl::Milliseconds(1)));
    enable_gathering(group);
    ASSERT_THAT(group.confirm(
                    [&](int rank) { return run_in_order(group, rank, order); }),
                Each(absl::OkStatus()));
    expect_copies(group, "failed: ranks 0, 1, 2, 3: dit_0.blocks.");
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto mine = group.rank(rank).module->run(0, toy_input(), order);
      ASSERT_TRUE(mine.ok()) << mine.status();
      const auto twin = group.rank(rank).twin->run(0, toy_input(), order);
      EXPECT_EQ(bytes_of(*mine), bytes_of(*twin));
    }
  }
}

// The others may make more of such a request than it did.
TEST(AutomaticGroupTest, EachCopiesWhereBlocksRunAgainOnOneRank) {
  for (const Order& order : orders_that_cannot_be_gathered()) {
    ToyGroup group(confirming_options(absl::Milliseconds(1)));
    enable_gathering(group);
    ASSERT_THAT(group.confirm([&](int rank) {
      if (rank == 1) return run_in_order(group, rank, order);
      return run_request(group, rank);
    }),
                Each(absl::OkStatus()));
    expect_copies(group, "failed: rank 1: dit_0.blocks.");
  }
}

ToyGroupOptions asked_for_options() {
  ToyGroupOptions options = confirming_options(absl::ZeroDuration());
  options.device = checked_device();
  options.automatic = false;
  return options;
}

TEST(AutomaticGroupTest, WhatWasAskedForAndCannotBeGatheredIsTheErrorOfAll) {
  for (const int failing_rank : {0, 3, kRanks}) {
    for (const Order& order : orders_that_cannot_be_gathered()) {
      ToyGroup group(asked_for_options());
      ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
      const std::vector<absl::Status> said = group.confirm([&](int rank) {
        if (failing_rank == rank || failing_rank == kRanks) {
          return run_in_order(group, rank, order);
        }
        return run_request(group, rank);
      });
      EXPECT_THAT(said, Each(said.front()));
      EXPECT_EQ(said.front().code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(said.front().message()),
                  HasSubstr(": dit_0.blocks."));
      EXPECT_THAT(std::string(said.front().message()),
                  HasSubstr("weight_transfer \"rank-local\" allows more"));
      // All have left in order: none finds that the group has failed.
      for (int rank = 0; rank < kRanks; ++rank) {
        EXPECT_EQ(group.rank(rank).group.control->status(), absl::OkStatus());
        EXPECT_EQ(group.rank(rank).group.weights->status(), absl::OkStatus());
      }
      EXPECT_THAT(group.violations(), IsEmpty());
    }
  }
}

// No rank is left waiting for it, whatever it was about to call.
TEST(AutomaticGroupTest, AModuleThatThrowsWhileTheyChooseIsTheErrorOfAll) {
  int thrown = 0;
  for (int64_t nth = 1;; nth += 1 + nth / 4) {
    SCOPED_TRACE(nth);
    ToyGroup group(automatic_options(/*gather_gbps=*/5, /*h2d_gbps=*/0.01));
    ThrowingModule throwing(*group.rank(1).module, nth);
    std::vector<absl::Status> said(kRanks);
    run_ranks(kRanks, [&](int rank) {
      OffloadableModule& module =
          rank == 1 ? static_cast<OffloadableModule&>(throwing)
                    : *group.rank(rank).module;
      said[static_cast<size_t>(rank)] =
          group.rank(rank).backend->enable(module);
    });
    if (!throwing.is_blown()) break;
    ++thrown;
    EXPECT_THAT(said, Each(said.front()));
    EXPECT_THAT(std::string(said.front().message()),
                HasSubstr("rank 1: enable: the module's attribute is gone"));
  }
  EXPECT_GE(thrown, 10);
}

// In the middle of a pass, whose blocks it holds.
absl::Status throw_in_a_pass(ToyGroup& group, int rank) {
  const OffloadableComponent& dit = group.rank(rank).module->components()[0];
  RETURN_IF_ERROR(dit.hooks->pre_forward());
  RETURN_IF_ERROR(dit.stacks[0].blocks[1].hooks->pre_forward());
  TORCH_CHECK(false, "the model throws");
}

TEST(AutomaticGroupTest, EachCopiesWhereTheRequestOfOneThrows) {
  ToyGroup group(confirming_options(absl::Milliseconds(1)));
  enable_gathering(group);
  ASSERT_THAT(group.confirm([&](int rank) {
    if (rank == 1) return throw_in_a_pass(group, rank);
    return run_request(group, rank);
  }),
              Each(absl::OkStatus()));
  expect_copies(group,
                "failed: rank 1: the smallest request: the model throws");
}

TEST(AutomaticGroupTest, WhatWasAskedForAndThrowsIsTheErrorOfAll) {
  ToyGroup group(asked_for_options());
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  const std::vector<absl::Status> said = group.confirm([&](int rank) {
    if (rank == 3) return throw_in_a_pass(group, rank);
    return run_request(group, rank);
  });
  EXPECT_THAT(said, Each(said.front()));
  EXPECT_EQ(said.front().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(said.front().message()),
              HasSubstr("rank 3: the smallest request: the model throws"));
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(group.rank(rank).group.control->status(), absl::OkStatus());
    EXPECT_EQ(group.rank(rank).group.weights->status(), absl::OkStatus());
  }
}

TEST(AutomaticGroupTest, WhatWasAskedForAndRunsOnceIsServed) {
  ToyGroup group(asked_for_options());
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  ASSERT_THAT(group.confirm([&](int rank) { return run_request(group, rank); }),
              Each(absl::OkStatus()));
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(group.rank(rank).group.choice, nullptr);
    EXPECT_EQ(group.rank(rank).backend->reason(), "asked for");
  }
  // What it does not show fails its request alone.
  EXPECT_FALSE(run_in_order(group, 1, {0, 1, 1}).ok());
  run_ranks(kRanks, [&](int rank) { group.expect_request(rank, 1 + rank); });
  EXPECT_THAT(group.violations(), IsEmpty());
}

TEST(AutomaticGroupTest, ARankThatIsLostMeanwhileIsTheErrorOfAll) {
  // In a gather after those that were measured, and where they decide.
  const auto fails_at = [](int64_t nth) {
    return [nth](int rank, int64_t call) {
      CallFault fault;
      if (rank == 1 && call == nth) fault.kind = CallFault::Kind::kFails;
      return fault;
    };
  };
  for (const bool gathers : {true, false}) {
    ToyGroupOptions options = confirming_options(kLong);
    (gathers ? options.weight_faults : options.choice_faults) =
        gathers ? fails_at(20) : fails_at(3);
    ToyGroup group(options);
    enable_gathering(group);
    for (const absl::Status& status :
         group.confirm([&](int rank) { return run_request(group, rank); })) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    }
  }
}

}  // namespace
}  // namespace ferry
