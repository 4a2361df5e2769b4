// Groups that choose for themselves whether they gather.

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "offload/offload_config.h"
#include "offload/offload_stats.h"
#include "offload/placement_backend.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/toy_group.h"
#include "platform/device/device_arena.h"
#include "platform/device/host_arena.h"
#include "platform/device/simulated/fault_plan.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/device/simulated/simulated_platform.h"
#include "platform/device/stream_lease.h"
#include "platform/distributed/testing/rank_threads.h"

namespace ferry {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int kRanks = 4;

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
void expect_agreement(ToyGroup& group, const std::string& reason) {
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  for (int rank = 0; rank < kRanks; ++rank) {
    const PlacementBackend& backend = *group.rank(rank).backend;
    EXPECT_EQ(backend.strategy(), OffloadStrategy::kDistributedLayerWise);
    EXPECT_EQ(backend.reason(), group.rank(0).backend->reason());
    EXPECT_THAT(backend.reason(), HasSubstr(reason));
  }
  run_ranks(kRanks, [&](int rank) { group.expect_request(rank, 1 + rank); });
  EXPECT_THAT(group.violations(), IsEmpty());
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
  for (const int64_t nth : {1, 4, 7, 8}) expect_copies(FaultPoint::kCopy, nth);
  // After these, after gathers, and after what was beside them.
  for (const int64_t nth : {1, 4, 7, 8, 11, 12}) {
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

}  // namespace
}  // namespace ferry
