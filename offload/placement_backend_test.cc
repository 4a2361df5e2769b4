#include "offload/placement_backend.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/toy_module.h"

namespace ferry {
namespace {

DiffusionOffloadConfig layers_of_dit() {
  DiffusionOffloadConfig config;
  config.mode = "layer";
  config.components = std::vector<std::string>{"dit"};
  return config;
}

OffloadConfig policy_of(const DiffusionOffloadConfig& compact) {
  OmniDiffusionConfig config;
  config.diffusion_offload_config = compact;
  return *OffloadConfig::from_od_config(config);
}

OffloadConfig automatic(int64_t headroom_bytes) {
  DiffusionOffloadConfig config;
  config.mode = "auto";
  config.headroom_bytes = headroom_bytes;
  return policy_of(config);
}

class PlacementBackendTest : public testing::Test {
 protected:
  PlacementBackendTest() {
    options_.dits = 2;
    options_.encoders = 1;
    options_.blocks = 24;
  }

  // Runs all components twice, offloaded and resident; the stats of between.
  OffloadStats expect_same(const OffloadConfig& config, int64_t memory_bytes,
                           OffloadStrategy strategy) {
    SimulatedDeviceOptions device = checked_device();
    device.memory_bytes = memory_bytes;
    SimulatedPlatform platform(device);
    ToyModule module(options_);
    ToyModule twin(options_);
    PlacementBackend backend(platform, config, {});
    const absl::Status status = backend.enable(module);
    EXPECT_EQ(status, absl::OkStatus());
    if (!status.ok()) return {};
    EXPECT_EQ(backend.strategy(), strategy);
    reason_ = backend.reason();
    for (const size_t component : {2, 0, 1, 2, 0, 1}) {
      const auto output = module.run(component, toy_input());
      EXPECT_TRUE(output.ok()) << output.status();
      if (!output.ok()) break;
      EXPECT_EQ(bytes_of(*output), bytes_of(*twin.run(component, toy_input())));
    }
    const OffloadStats stats = backend.stats();
    EXPECT_LE(platform.simulated_device().stats().device.bytes_peak,
              memory_bytes);
    EXPECT_EQ(backend.disable(), absl::OkStatus());
    EXPECT_EQ(state_of(module), package_state_of(twin));
    EXPECT_EQ(platform.simulated_device().violations(),
              std::vector<std::string>());
    return stats;
  }

  ToyOptions options_;
  // Of the last backend that was enabled.
  std::string reason_;
};

constexpr int64_t kPlenty = int64_t{16} << 20;

TEST_F(PlacementBackendTest, ResidentLayersStay) {
  DiffusionOffloadConfig config = layers_of_dit();
  const OffloadStats none =
      expect_same(policy_of(config), kPlenty, OffloadStrategy::kLayerWise);
  EXPECT_EQ(reason_, "asked for");
  config.layer_options = {{"dit", "rank-local", 16}};
  const OffloadStats some = expect_same(policy_of(config), kPlenty,
                                        OffloadStrategy::kDistributedLayerWise);
  EXPECT_EQ(some.streamed_bytes, none.streamed_bytes / 3);
  EXPECT_EQ(some.demand_fetches, 0);
  EXPECT_EQ(reason_, "asked for, with 16 resident blocks");
  config.layer_options = {{"dit", "rank-local", 24}};
  const OffloadStats all = expect_same(policy_of(config), kPlenty,
                                       OffloadStrategy::kDistributedLayerWise);
  EXPECT_EQ(all.streamed_bytes, 0);
  EXPECT_EQ(all.h2d_bytes, 0);
}

TEST_F(PlacementBackendTest, APlanThatStreamsNothingSaysSoFirst) {
  SimulatedPlatform platform(checked_device());
  ToyModule module(options_);
  const std::vector<at::Tensor> tensors = module.all_tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    module.add_tensor("", absl::StrCat("again_", i), tensors[i]);
  }
  PlacementBackend backend(platform, policy_of(layers_of_dit()), {});
  ASSERT_EQ(backend.enable(module), absl::OkStatus());
  EXPECT_EQ(backend.stats().streamed_bytes, 0);
  const std::vector<std::string>& warnings = backend.plan()->warnings;
  ASSERT_FALSE(warnings.empty());
  EXPECT_TRUE(absl::StartsWith(warnings[0], "nothing is streamed, although"));
  EXPECT_TRUE(absl::StrContains(warnings[0], "bytes) is used by "))
      << warnings[0];
  EXPECT_EQ(backend.disable(), absl::OkStatus());
}

TEST_F(PlacementBackendTest, AMemoryBudgetIsKept) {
  const OffloadStats all = expect_same(policy_of(layers_of_dit()), kPlenty,
                                       OffloadStrategy::kLayerWise);
  const int64_t weights = all.resident_bytes + all.streamed_bytes;
  int64_t streamed = all.streamed_bytes;
  for (const int percent : {60, 80, 95}) {
    DiffusionOffloadConfig config = layers_of_dit();
    config.memory_budget_bytes = weights * percent / 100;
    const OffloadStats stats = expect_same(
        policy_of(config), kPlenty, OffloadStrategy::kDistributedLayerWise);
    EXPECT_LT(stats.streamed_bytes, streamed) << percent;
    streamed = stats.streamed_bytes;
    EXPECT_GE(stats.device_bytes, *config.memory_budget_bytes * 85 / 100);
    EXPECT_LE(stats.device_bytes, *config.memory_budget_bytes);
    EXPECT_EQ(reason_,
              absl::StrCat("asked for, with as many resident blocks as fit ",
                           "into ", *config.memory_budget_bytes, " bytes"));
  }
}

TEST_F(PlacementBackendTest, ATooSmallBudgetIsRefusedWithNumbers) {
  DiffusionOffloadConfig config = layers_of_dit();
  config.memory_budget_bytes = 2000;
  SimulatedPlatform platform(checked_device());
  ToyModule module(options_);
  PlacementBackend backend(platform, policy_of(config), {});
  const absl::Status status = backend.enable(module);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StartsWith(status.message(),
                               "memory budget: 2000 bytes, of which "))
      << status;
  EXPECT_FALSE(backend.is_enabled());
}

TEST_F(PlacementBackendTest, AutomaticStreamsAsLittleAsFits) {
  const OffloadStats resident =
      expect_same(automatic(0), kPlenty, OffloadStrategy::kNone);
  EXPECT_EQ(resident.streamed_bytes, 0);
  EXPECT_EQ(
      reason_,
      absl::StrCat("everything fits: all weights are ", resident.resident_bytes,
                   " bytes, and of ", kPlenty, " free bytes ", kPlenty,
                   " may hold weights, the ", "rest is left to activations"));
  const int64_t memory = resident.device_bytes * 7 / 10;
  const OffloadStats most =
      expect_same(automatic(0), memory, OffloadStrategy::kDistributedLayerWise);
  EXPECT_TRUE(absl::StartsWith(reason_, "the least streaming that fits: all "))
      << reason_;
  EXPECT_TRUE(absl::StrContains(reason_, absl::StrCat(memory))) << reason_;
  const OffloadStats some =
      expect_same(automatic(0), resident.device_bytes * 8 / 10,
                  OffloadStrategy::kDistributedLayerWise);
  EXPECT_GT(most.streamed_bytes, some.streamed_bytes);
  EXPECT_GT(some.streamed_bytes, 0);
}

// Whatever the pipeline and the device are like, and whatever is chosen.
TEST_F(PlacementBackendTest, AutomaticAlwaysGivesAReasonWithNumbers) {
  std::map<OffloadStrategy, int> chosen;
  // Of the last one a slot for each ring is more than its largest component.
  for (const auto& [dits, encoders, vaes, blocks] :
       std::vector<std::array<int, 4>>{{2, 1, 0, 6},
                                       {1, 0, 1, 6},
                                       {1, 2, 1, 6},
                                       {0, 2, 1, 6},
                                       {0, 0, 2, 6},
                                       {1, 8, 0, 2}}) {
    ToyOptions toy;
    toy.dits = dits;
    toy.encoders = encoders;
    toy.vaes = vaes;
    toy.blocks = blocks;
    for (int64_t memory = 8192; memory <= 131'072; memory += 4096) {
      for (const int64_t headroom : {int64_t{0}, memory / 3}) {
        SimulatedDeviceOptions device = checked_device();
        device.memory_bytes = memory;
        SimulatedPlatform platform(device);
        ToyModule module(toy);
        PlacementBackend backend(platform, automatic(headroom), {});
        if (!backend.enable(module).ok()) continue;
        ++chosen[backend.strategy()];
        const std::string reason = backend.reason();
        EXPECT_TRUE(absl::StrContains(reason, absl::StrCat(memory)))
            << dits << " DiTs, " << encoders << " encoders, " << memory
            << " bytes: " << reason;
        EXPECT_EQ(backend.disable(), absl::OkStatus());
      }
    }
  }
  for (const OffloadStrategy strategy :
       {OffloadStrategy::kNone, OffloadStrategy::kDistributedLayerWise,
        OffloadStrategy::kModelLevel}) {
    EXPECT_GT(chosen[strategy], 0) << static_cast<int>(strategy);
  }
  std::printf("by layers without a budget: %d\n",
              chosen[OffloadStrategy::kLayerWise]);
}

TEST_F(PlacementBackendTest, AutomaticLeavesTheHeadroom) {
  const OffloadStats resident =
      expect_same(automatic(0), kPlenty, OffloadStrategy::kNone);
  const OffloadStats stats =
      expect_same(automatic(kPlenty - resident.device_bytes * 8 / 10), kPlenty,
                  OffloadStrategy::kDistributedLayerWise);
  EXPECT_LE(stats.device_bytes, resident.device_bytes);
}

TEST_F(PlacementBackendTest, NothingFitsIsSaidByPhase) {
  SimulatedDeviceOptions device = checked_device();
  device.memory_bytes = 4096;
  SimulatedPlatform platform(device);
  ToyModule module(options_);
  const std::vector<std::string> state = state_of(module);
  PlacementBackend backend(platform, automatic(0), {});
  const absl::Status status = backend.enable(module);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(state_of(module), state);
  EXPECT_EQ(module.hook_names(), std::vector<std::string>());
}

TEST_F(PlacementBackendTest, NamesAllThatCannotMove) {
  SimulatedPlatform platform(checked_device());
  ToyModule module(options_);
  module.add_tensor("dit_0", "sparse", at::zeros({2, 2}).to_sparse());
  module.add_tensor("dit_0.blocks.1", "meta",
                    at::empty({2}, at::TensorOptions().device(c10::kMeta)));
  module.add_obstacle("dit_0.packed is an object of a custom class");
  PlacementBackend backend(platform, layerwise_policy(), {});
  const absl::Status status = backend.enable(module);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "dit_0.packed is an object of a custom class; dit_0.sparse is not "
            "a dense strided tensor; dit_0.blocks.1.meta is on the meta device "
            "and has no values");
}

// What libraries of the device take is left to them, whatever the policy.
TEST_F(PlacementBackendTest, PlansLeaveAloneWhatLibrariesTake) {
  for (const int64_t memory : {40'000, 60'000, 200'000}) {
    std::vector<OffloadStats> stats;
    std::vector<std::string> reasons;
    for (const int64_t library_bytes : {int64_t{0}, int64_t{100'000}}) {
      SimulatedDeviceOptions options = checked_device();
      options.memory_bytes = memory + library_bytes;
      options.library_bytes = library_bytes;
      SimulatedPlatform platform(options);
      OmniDiffusionConfig config;
      config.diffusion_offload_config.emplace().mode = "auto";
      ToyOptions toy;
      toy.blocks = 9;
      ToyModule module(toy);
      PlacementBackend backend(platform, *OffloadConfig::from_od_config(config),
                               {});
      ASSERT_EQ(backend.enable(module), absl::OkStatus());
      stats.push_back(backend.stats());
      reasons.push_back(backend.reason());
      ASSERT_EQ(backend.disable(), absl::OkStatus());
    }
    EXPECT_EQ(stats[0].device_bytes, stats[1].device_bytes);
    EXPECT_EQ(stats[0].resident_bytes, stats[1].resident_bytes);
    EXPECT_EQ(reasons[0], reasons[1]);
  }
}

}  // namespace
}  // namespace ferry
