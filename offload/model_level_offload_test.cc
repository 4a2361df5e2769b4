#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "offload/placement_backend.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/toy_module.h"

namespace ferry {
namespace {

// A DiT, a second one, an encoder and a VAE: components 0 to 3.
ToyOptions all_roles() {
  ToyOptions options;
  options.dits = 2;
  options.encoders = 1;
  options.vaes = 1;
  return options;
}

class ModelLevelOffloadTest : public testing::Test {
 protected:
  ModelLevelOffloadTest()
      : platform_(checked_device()),
        module_(all_roles()),
        twin_(all_roles()),
        backend_(platform_, model_level_policy(true), {}) {}

  ~ModelLevelOffloadTest() override {
    EXPECT_EQ(device().violations(), std::vector<std::string>());
    EXPECT_EQ(device().stats().device.bytes_in_use, 0);
  }

  void expect_same(const std::vector<size_t>& components) {
    for (const size_t component : components) {
      const auto offloaded = module_.run(component, toy_input());
      ASSERT_TRUE(offloaded.ok()) << offloaded.status();
      EXPECT_EQ(bytes_of(*offloaded),
                bytes_of(*twin_.run(component, toy_input())));
    }
  }

  SimulatedDevice& device() { return platform_.simulated_device(); }

  SimulatedPlatform platform_;
  ToyModule module_;
  ToyModule twin_;
  PlacementBackend backend_;
};

TEST_F(ModelLevelOffloadTest, ComponentsTakeTurns) {
  ASSERT_EQ(backend_.enable(module_), absl::OkStatus());
  for (int request = 0; request < 3; ++request) {
    expect_same({2, 0, 0, 0, 1, 1, 3});
  }
  ASSERT_EQ(backend_.disable(), absl::OkStatus());
  EXPECT_EQ(state_of(module_), package_state_of(twin_));
  EXPECT_EQ(module_.hook_names(), std::vector<std::string>());
}

TEST_F(ModelLevelOffloadTest, StepsAndTilesDoNotStreamAgain) {
  ASSERT_EQ(backend_.enable(module_), absl::OkStatus());
  expect_same({2, 0});
  const int64_t copies = device().stats().host_to_device.count;
  expect_same({0, 0, 0});
  EXPECT_EQ(device().stats().host_to_device.count, copies);
  expect_same({3, 3, 3});
  EXPECT_EQ(device().stats().host_to_device.count, copies + 1);
  ASSERT_EQ(backend_.disable(), absl::OkStatus());
}

TEST_F(ModelLevelOffloadTest, NeedsTheLargestComponentOnly) {
  ASSERT_EQ(backend_.enable(module_), absl::OkStatus());
  const OffloadStats stats = backend_.stats();
  EXPECT_EQ(device().stats().device.bytes_in_use, stats.device_bytes);
  // Three of the four are equal, and one of them fits.
  EXPECT_LT(stats.device_bytes - stats.resident_bytes,
            stats.streamed_bytes / 3 + 4 * device().allocation_granularity());
  expect_same({2, 0, 1, 3});
  EXPECT_EQ(device().stats().device.bytes_peak, stats.device_bytes);
  ASSERT_EQ(backend_.disable(), absl::OkStatus());
}

TEST_F(ModelLevelOffloadTest, WeightsAreNeverCopiedBack) {
  ASSERT_EQ(backend_.enable(module_), absl::OkStatus());
  expect_same({2, 0, 1, 3, 2, 0, 1, 3});
  EXPECT_EQ(device().stats().device_to_host.count, 0);
  ASSERT_EQ(backend_.disable(), absl::OkStatus());
  // Nor is what was written: the host has what the package holds.
  EXPECT_EQ(device().stats().device_to_host.count, 0);
}

TEST_F(ModelLevelOffloadTest, AnAbandonedComponentLeavesItUsable) {
  ASSERT_EQ(backend_.enable(module_), absl::OkStatus());
  for (const size_t component : {0, 2}) {
    EXPECT_EQ(module_.abandon(component, 1), absl::OkStatus());
    expect_same({1, 0, 2});
  }
  ASSERT_EQ(backend_.disable(), absl::OkStatus());
  EXPECT_EQ(state_of(module_), package_state_of(twin_));
}

TEST_F(ModelLevelOffloadTest, AnErrorOfTheDeviceEndsThePassOnly) {
  ASSERT_EQ(backend_.enable(module_), absl::OkStatus());
  expect_same({2});
  int failures = 0;
  for (const FaultPoint point :
       {FaultPoint::kRecord, FaultPoint::kWait, FaultPoint::kCopy}) {
    for (int nth = 1; nth <= 3; ++nth) {
      device().faults().fail(point, nth);
      if (module_.run(0, toy_input()).ok()) {
        ASSERT_TRUE(twin_.run(0, toy_input()).ok());
      } else {
        ++failures;
      }
      device().faults().fail(point, 1000);
      expect_same({0, 1, 2});
    }
  }
  EXPECT_GE(failures, 3);
  ASSERT_EQ(backend_.disable(), absl::OkStatus());
}

TEST_F(ModelLevelOffloadTest, AComponentThatRunsIsNotReplaced) {
  ASSERT_EQ(backend_.enable(module_), absl::OkStatus());
  ASSERT_EQ(module_.components()[0].hooks->pre_forward(), absl::OkStatus());
  const auto other = module_.run(1, toy_input());
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      other.status().message(),
      "dit_1: runs inside of other blocks of the components that take turns, "
      "which hold all of its 1 slots");
  expect_same({0, 1});
  ASSERT_EQ(backend_.disable(), absl::OkStatus());
}

}  // namespace
}  // namespace ferry
