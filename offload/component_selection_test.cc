// Which components and blocks a policy moves, and that it leaves everything
// else, and everything when it is refused, as it is.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "offload/offload_backend.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "offload/placement_backend.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/toy_module.h"

namespace ferry {
namespace {

// Two DiTs, an encoder and a VAE: components 0 to 3.
ToyOptions all_roles() {
  ToyOptions options;
  options.dits = 2;
  options.encoders = 1;
  options.vaes = 1;
  return options;
}

OffloadConfig policy_of(const std::string& mode,
                        const std::vector<std::string>& components) {
  OmniDiffusionConfig config;
  DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
  compact.mode = mode;
  compact.components = components;
  return *OffloadConfig::from_od_config(config);
}

OffloadConfig distributed_policy(int64_t resident_layers) {
  OmniDiffusionConfig config;
  config.enable_distributed_layerwise_offload = true;
  config.dlo_use_allgather = false;
  config.dlo_resident_layers = resident_layers;
  return *OffloadConfig::from_od_config(config);
}

class ComponentSelectionTest : public testing::Test {
 protected:
  ComponentSelectionTest() : platform_(checked_device()) {}

  ~ComponentSelectionTest() override {
    EXPECT_EQ(device().violations(), std::vector<std::string>());
    EXPECT_EQ(device().stats().device.bytes_in_use, 0);
  }

  // Runs all components twice, offloaded and resident, two times over. The
  // stats of between.
  OffloadStats expect_same(const OffloadConfig& policy,
                           const ToyOptions& options) {
    ToyModule module(options);
    ToyModule twin(options);
    PlacementBackend backend(platform_, policy, {});
    OffloadStats stats;
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(backend.enable(module), absl::OkStatus());
      expect_same_outputs(module, twin);
      stats = backend.stats();
      EXPECT_EQ(backend.disable(), absl::OkStatus());
      EXPECT_EQ(state_of(module), package_state_of(twin));
    }
    return stats;
  }

  static void expect_same_outputs(ToyModule& module, ToyModule& twin) {
    const size_t components = module.components().size();
    for (size_t pass = 0; pass < 2 * components; ++pass) {
      const size_t component = pass % components;
      const auto output = module.run(component, toy_input());
      ASSERT_TRUE(output.ok()) << output.status();
      EXPECT_EQ(bytes_of(*output), bytes_of(*twin.run(component, toy_input())));
    }
  }

  // It is refused, and the pipeline is as it was.
  void expect_refused(const OffloadConfig& policy, const ToyOptions& options,
                      const std::string& message) {
    ToyModule module(options);
    ToyModule twin(options);
    const std::vector<std::string> state = state_of(module);
    PlacementBackend backend(platform_, policy, {});
    const absl::Status status = backend.enable(module);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(status.message(), message)) << status;
    EXPECT_FALSE(backend.is_enabled());
    EXPECT_EQ(backend.plan(), nullptr);
    EXPECT_EQ(module.hook_names(), std::vector<std::string>());
    EXPECT_EQ(state_of(module), state);
    EXPECT_EQ(device().stats().host.allocations, 0);
    expect_same_outputs(module, twin);
  }

  // Bytes of a block's image.
  int64_t block_bytes() {
    ToyOptions options;
    const OffloadStats stats =
        expect_same(policy_of("layer", {"dit"}), options);
    return stats.streamed_bytes / options.blocks;
  }

  SimulatedDevice& device() { return platform_.simulated_device(); }

  SimulatedPlatform platform_;
};

TEST_F(ComponentSelectionTest, OnlySelectedComponentsAreStreamed) {
  const int64_t block = block_bytes();
  const auto streamed_blocks = [&](const std::vector<std::string>& components) {
    return expect_same(policy_of("layer", components), all_roles())
               .streamed_bytes /
           block;
  };
  EXPECT_EQ(streamed_blocks({"dit"}), 2 * 4);
  EXPECT_EQ(streamed_blocks({"text_encoder"}), 4);
  EXPECT_EQ(streamed_blocks({"dit", "text_encoder"}), 3 * 4);
}

TEST_F(ComponentSelectionTest, HooksAreOnSelectedBlocksAndOnRoots) {
  ToyModule module(all_roles());
  PlacementBackend backend(platform_, policy_of("layer", {"text_encoder"}), {});
  ASSERT_EQ(backend.enable(module), absl::OkStatus());
  for (const OffloadableComponent& component : module.components()) {
    EXPECT_EQ(component.hooks->names(),
              std::vector<std::string>{"offload.audit"});
    const bool selected = component.role == ComponentRole::kTextEncoder;
    for (const BlockStack& stack : component.stacks) {
      for (const OffloadableBlock& block : stack.blocks) {
        EXPECT_EQ(block.hooks->contains("offload.ring"), selected)
            << block.path;
      }
    }
  }
  ASSERT_EQ(backend.disable(), absl::OkStatus());
}

TEST_F(ComponentSelectionTest, AtModelLevelUnselectedComponentsStay) {
  const OffloadStats all = expect_same(
      policy_of("module", {"dit", "text_encoder", "vae"}), all_roles());
  const OffloadStats some =
      expect_same(policy_of("module", {"text_encoder"}), all_roles());
  EXPECT_LT(some.streamed_bytes, all.streamed_bytes / 2);
  EXPECT_EQ(some.streamed_bytes + some.resident_bytes,
            all.streamed_bytes + all.resident_bytes);
}

TEST_F(ComponentSelectionTest, TheOlderFormLeavesEncodersWithoutBlocks) {
  ToyOptions options = all_roles();
  options.blocks = 1;
  OmniDiffusionConfig config;
  config.enable_layerwise_offload = true;
  const OffloadStats stats =
      expect_same(*OffloadConfig::from_od_config(config), options);
  EXPECT_EQ(stats.streamed_bytes, 0);
  EXPECT_EQ(stats.h2d_bytes, 0);
}

TEST_F(ComponentSelectionTest, ADitsChildHasARingOfItsOwn) {
  const int64_t block = block_bytes();
  ToyOptions options = all_roles();
  options.child_blocks = 3;
  EXPECT_EQ(expect_same(distributed_policy(0), options).streamed_bytes,
            (2 * (4 + 3) + 4) * block);
  // Also when all blocks of the DiT stay.
  EXPECT_EQ(expect_same(distributed_policy(4), options).streamed_bytes,
            (2 * 3 + 4) * block);
  // Elsewhere it is state beside the blocks.
  EXPECT_EQ(expect_same(layerwise_policy(), options).streamed_bytes,
            (2 * 4 + 4) * block);
}

TEST_F(ComponentSelectionTest, ARefusedPlanTouchesNothing) {
  ToyOptions one_block = all_roles();
  one_block.blocks = 1;
  expect_refused(policy_of("layer", {"dit"}), one_block, "dit_0: has 1 blocks");
  expect_refused(policy_of("layer", {"vae"}), all_roles(),
                 "_on_demand_lifecycle");
  ToyOptions no_encoder = all_roles();
  no_encoder.encoders = 0;
  expect_refused(policy_of("layer", {"dit", "text_encoder"}), no_encoder,
                 "\"text_encoder\" is selected, and there is none");
  expect_refused(policy_of("module", {"dit"}), no_encoder, "needs an encoder");
}

TEST_F(ComponentSelectionTest, PipelinesTakeTurnsAndLeaveNothing) {
  ToyModule first(all_roles());
  ToyOptions options = all_roles();
  options.blocks = 7;
  ToyModule second(options);
  PlacementBackend layers(platform_, layerwise_policy(), {});
  PlacementBackend components(platform_, model_level_policy(true), {});
  int64_t host_bytes = 0;
  for (int turn = 0; turn < 20; ++turn) {
    for (ToyModule* module : {&first, &second}) {
      for (PlacementBackend* backend : {&layers, &components}) {
        ASSERT_EQ(backend->enable(*module), absl::OkStatus());
        for (const size_t component : {2, 0, 1, 3}) {
          ASSERT_TRUE(module->run(component, toy_input()).ok());
        }
        ASSERT_EQ(backend->disable(), absl::OkStatus());
        EXPECT_EQ(device().stats().device.bytes_in_use, 0);
      }
    }
    if (turn == 0) host_bytes = device().stats().host.bytes_in_use;
    EXPECT_EQ(device().stats().host.bytes_in_use, host_bytes);
  }
}

TEST_F(ComponentSelectionTest, TwentyRequestsTakeNoMoreMemory) {
  for (const OffloadConfig& policy :
       {layerwise_policy(), model_level_policy(true), distributed_policy(2)}) {
    ToyModule module(all_roles());
    PlacementBackend backend(platform_, policy, {});
    ASSERT_EQ(backend.enable(module), absl::OkStatus());
    const DeviceStats before = device().stats();
    for (int request = 0; request < 20; ++request) {
      for (const size_t component : {2, 0, 0, 1, 3}) {
        ASSERT_TRUE(module.run(component, toy_input()).ok());
      }
    }
    const DeviceStats after = device().stats();
    EXPECT_EQ(after.host.allocations, before.host.allocations);
    EXPECT_EQ(after.device.allocations, before.device.allocations);
    EXPECT_EQ(after.device.bytes_in_use, before.device.bytes_in_use);
    EXPECT_EQ(after.device_to_host.count, before.device_to_host.count);
    ASSERT_EQ(backend.disable(), absl::OkStatus());
  }
}

}  // namespace
}  // namespace ferry
