// What a backend says of its time and of its bytes.

#include "offload/offload_stats.h"

#include <gtest/gtest.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "offload/placement_backend.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/toy_module.h"
#include "platform/device/cuda/testing/fake_cuda_api.h"
#include "platform/device/cuda/testing/fake_cuda_platform.h"

namespace ferry {
namespace {

constexpr int kBlocks = 4;
// So slow that compute does not count.
constexpr double kGbps = 1e-3;

// A pipeline whose weights come slowly.
class OffloadStatsTest : public testing::Test {
 protected:
  static SimulatedDeviceOptions slow_device() {
    SimulatedDeviceOptions options = checked_device();
    options.h2d_gbps = kGbps;
    return options;
  }

  OffloadStatsTest() : platform_(slow_device()), module_(toy_options()) {}

  static ToyOptions toy_options() {
    ToyOptions options;
    options.encoders = 1;
    options.blocks = kBlocks;
    return options;
  }

  void enable(const OffloadConfig& config, int slots) {
    backend_ = std::make_unique<PlacementBackend>(
        platform_, config, PlacementBackendOptions{slots});
    ASSERT_EQ(backend_->enable(module_), absl::OkStatus());
  }
  void run(size_t component) {
    ASSERT_TRUE(module_.run(component, toy_input()).ok());
  }
  static absl::Duration copy_time(int64_t bytes) {
    return absl::Nanoseconds(static_cast<double>(bytes) / kGbps);
  }

  SimulatedPlatform platform_;
  ToyModule module_;
  std::unique_ptr<PlacementBackend> backend_;
};

TEST_F(OffloadStatsTest, WithOneSlotEveryCopyIsWaitedFor) {
  enable(layerwise_policy(), 1);
  run(0);
  const OffloadStats before = backend_->stats();
  for (int pass = 0; pass < 3; ++pass) run(0);
  const OffloadStats stats = backend_->stats().since(before);
  const int64_t block_bytes = stats.streamed_bytes / (2 * kBlocks);
  EXPECT_EQ(stats.h2d_bytes, 3 * kBlocks * block_bytes);
  EXPECT_GT(stats.exposed_stall, 2.7 * kBlocks * copy_time(block_bytes));
  EXPECT_GT(stats.first_block_stall, 2.7 * copy_time(block_bytes));
  EXPECT_LT(stats.first_block_stall, stats.exposed_stall / 2);
  // The last copy may run still.
  EXPECT_GE(stats.timed_h2d_bytes, (3 * kBlocks - 1) * block_bytes);
  // A busy machine makes it less, and nothing more.
  EXPECT_LT(stats.h2d_gbps(), 1.02 * kGbps);
  EXPECT_GT(stats.h2d_gbps(), kGbps / 2);
}

TEST_F(OffloadStatsTest, NothingIsWaitedForThatIsThere) {
  enable(layerwise_policy(), kBlocks);
  run(0);
  // The end of the last copy, too, is there to be looked at.
  ASSERT_EQ(platform_.synchronize(), absl::OkStatus());
  const OffloadStats before = backend_->stats();
  EXPECT_GT(before.exposed_stall, absl::ZeroDuration());
  for (int pass = 0; pass < 3; ++pass) run(0);
  const OffloadStats stats = backend_->stats().since(before);
  EXPECT_EQ(stats.exposed_stall, absl::ZeroDuration());
  EXPECT_EQ(stats.h2d_bytes, 0);
  EXPECT_EQ(stats.h2d_gbps(), 0);
}

TEST_F(OffloadStatsTest, AComponentThatComesIsAFirstBlock) {
  enable(model_level_policy(false), 1);
  for (const size_t component : {1, 0, 0, 1}) run(component);
  ASSERT_EQ(platform_.synchronize(), absl::OkStatus());
  const OffloadStats stats = backend_->stats();
  EXPECT_EQ(stats.demand_fetches, 3);
  EXPECT_EQ(stats.exposed_stall, stats.first_block_stall);
  EXPECT_GE(stats.exposed_stall, copy_time(stats.h2d_bytes));
  EXPECT_EQ(stats.timed_h2d_bytes, stats.h2d_bytes);
}

TEST(OffloadStatsOnCuda, EventsTellTheStallAndTheHostDoesNotWait) {
  FakeCudaPlatform platform;
  ToyOptions options;
  options.blocks = kBlocks;
  ToyModule module(options);
  PlacementBackend backend(platform, layerwise_policy(), {});
  ASSERT_EQ(backend.enable(module), absl::OkStatus());
  ASSERT_TRUE(module.run(0, toy_input()).ok());
  const OffloadStats before = backend.stats();
  const FakeCudaApi& api = platform.api();
  const int64_t waits = api.calls("stream_synchronize") +
                        api.calls("device_synchronize") +
                        api.calls("event_synchronize");
  for (int pass = 0; pass < 3; ++pass) {
    ASSERT_TRUE(module.run(0, toy_input()).ok());
  }
  EXPECT_EQ(api.calls("stream_synchronize") + api.calls("device_synchronize") +
                api.calls("event_synchronize"),
            waits);
  const OffloadStats stats = backend.stats().since(before);
  // What the fake says of any two events.
  const absl::Duration each = absl::Milliseconds(1.5);
  EXPECT_EQ(stats.exposed_stall, 3 * kBlocks * each);
  EXPECT_EQ(stats.first_block_stall, 3 * each);
  EXPECT_EQ(stats.h2d_time, 3 * kBlocks * each);
  EXPECT_EQ(stats.timed_h2d_bytes, stats.h2d_bytes);
  EXPECT_EQ(backend.disable(), absl::OkStatus());
}

TEST_F(OffloadStatsTest, HoldsAsNowAndCountsSince) {
  OffloadStats before;
  before.h2d_bytes = 10;
  before.demand_fetches = 1;
  before.exposed_stall = absl::Seconds(1);
  OffloadStats after = before;
  after.resident_bytes = 100;
  after.slots = 2;
  after.h2d_bytes = 30;
  after.timed_h2d_bytes = 4000;
  after.h2d_time = absl::Microseconds(2);
  after.cloned_outputs = 7;
  const OffloadStats stats = after.since(before);
  EXPECT_EQ(stats.resident_bytes, 100);
  EXPECT_EQ(stats.slots, 2);
  EXPECT_EQ(stats.h2d_bytes, 20);
  EXPECT_EQ(stats.demand_fetches, 0);
  EXPECT_EQ(stats.exposed_stall, absl::ZeroDuration());
  EXPECT_EQ(stats.cloned_outputs, 7);
  EXPECT_EQ(stats.h2d_gbps(), 2);
  EXPECT_EQ(OffloadStats().h2d_gbps(), 0);
}

}  // namespace
}  // namespace ferry
