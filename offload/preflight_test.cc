#include "offload/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "offload/plan_resolver.h"
#include "offload/testing/tree_builder.h"

namespace ferry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kPage = 4096;

// A DiT of four blocks of 1000 bytes, 300 bytes beside them; an encoder of
// two blocks of 500; a VAE of 2000.
class PreflightTest : public testing::Test {
 protected:
  PreflightTest() {
    builder_.blocks("transformer.blocks", 4, 1000);
    builder_.parameter("transformer", 300);
    builder_.blocks("text_encoder.layers", 2, 500);
    builder_.parameter("vae", 2000);
    builder_.module("vae").on_demand_lifecycle = true;
    OffloadPlan& plan = builder_.tree.plan.emplace();
    plan.block_attrs["transformer"] = {"blocks"};
    plan.encoder_block_attrs["text_encoder"] = {"layers"};
    plan.resident_dit_paths = {"transformer"};
    plan.encoder_dlo_weight_replication = {"text_encoder"};
  }

  void configure(const OmniDiffusionConfig& od) {
    const auto config = OffloadConfig::from_od_config(od);
    ASSERT_TRUE(config.ok()) << config.status();
    const auto plan = resolve_offload_plan(builder_.tree, *config);
    ASSERT_TRUE(plan.ok()) << plan.status();
    needs_ = compute_memory_needs(*plan, *config, options_);
  }

  // "what bytes" of a phase.
  std::vector<std::string> items(size_t phase) const {
    std::vector<std::string> lines;
    for (const MemoryItem& item : needs_.device[phase].items) {
      lines.push_back(absl::StrCat(item.what, " ", item.bytes));
    }
    return lines;
  }

  static OmniDiffusionConfig compact(
      const std::string& mode, const std::vector<std::string>& components) {
    OmniDiffusionConfig config;
    config.diffusion_offload_config.emplace();
    config.diffusion_offload_config->mode = mode;
    config.diffusion_offload_config->components = components;
    return config;
  }

  TreeBuilder builder_;
  PreflightOptions options_;
  MemoryNeeds needs_;
};

TEST_F(PreflightTest, WithoutOffloadingEverythingIsResident) {
  configure({});
  // 4 × 1024 + 512 + 2 × 512 + 2048.
  EXPECT_THAT(items(1), ElementsAre("resident 7680"));
  // The device's memory is filled from images all the same: two pages for the
  // transformer, one for each other component.
  EXPECT_EQ(needs_.host.bytes(), 4 * kPage + 2 * kPage);
}

TEST_F(PreflightTest, LayerwiseHasSlotsInEveryPhase) {
  OmniDiffusionConfig od = compact("layer", {"dit", "text_encoder", "vae"});
  od.diffusion_offload_config->headroom_bytes = 77;
  configure(od);
  EXPECT_THAT(
      items(0),
      ElementsAre("resident 512",
                  "the largest of the components that exclude each other 2048",
                  "slots of transformer 2048", "slots of text_encoder 1024",
                  "headroom 77"));
  EXPECT_EQ(items(0), items(1));
  EXPECT_EQ(items(0), items(2));
  // A page for each block, and for what is beside them; one more is packed.
  EXPECT_EQ(needs_.host.bytes(), 8 * kPage + kPage);
}

TEST_F(PreflightTest, ResidentBlocksLeaveFewerSlots) {
  OmniDiffusionConfig od = compact("layer", {"dit"});
  od.diffusion_offload_config->layer_options = {{"dit", {}, 2}};
  options_.slots = 3;
  configure(od);
  EXPECT_THAT(items(1),
              ElementsAre("resident 5632", "slots of transformer 2048"));
}

TEST_F(PreflightTest, ComponentsThatAreStagedShareOneSlot) {
  OffloadPlan& plan = *builder_.tree.plan;
  builder_.parameter("text_encoder", 700);
  builder_.module("text_encoder").on_demand_lifecycle = true;
  plan.on_demand_component_paths = {"text_encoder"};
  configure(compact("layer", {"dit", "text_encoder", "vae"}));
  EXPECT_THAT(
      items(0),
      ElementsAre("resident 512",
                  "the largest of the components that exclude each other 2048",
                  "slots of transformer 2048", "slots of text_encoder 1024"));
}

TEST_F(PreflightTest, AComponentInsideOfAnotherTakesNoTurn) {
  // It may run while the other one does.
  builder_.alias("transformer.vae", "vae");
  configure(compact("layer", {"dit", "vae"}));
  EXPECT_THAT(items(1),
              ElementsAre("resident 3584", "slots of transformer 2048"));
  EXPECT_EQ(items(1), items(2));
  configure(compact("module", {"dit", "text_encoder", "vae"}));
  EXPECT_THAT(
      items(1),
      ElementsAre("resident 2048",
                  "the largest of the components that exclude each other "
                  "4608"));
}

TEST_F(PreflightTest, SlotsOfUnequalBlocksShareTheirMemory) {
  builder_.parameter("transformer.blocks.2", 50'000);
  configure(compact("layer", {"dit"}));
  EXPECT_THAT(items(1),
              ElementsAre("resident 3584", "slots of transformer 52224"));
}

TEST_F(PreflightTest, SumsThatAreTooLargeAreRefused) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const TreeBuilder small = builder_;
  for (const char* path : {"transformer", "transformer.blocks.1",
                           "text_encoder.layers.0", "vae"}) {
    for (const int64_t bytes : {kMost, kMost - 5000, kMost / 2 + 1}) {
      for (const char* mode : {"layer", "module"}) {
        SCOPED_TRACE(absl::StrCat(path, " ", bytes, " ", mode));
        builder_ = small;
        builder_.parameter(path, bytes);
        builder_.parameter(path, bytes);
        configure(compact(mode, {"dit", "text_encoder", "vae"}));
        EXPECT_EQ(needs_.device[1].bytes(), kMost);
        EXPECT_EQ(needs_.host.bytes(), kMost);
        EXPECT_FALSE(check_memory_needs(needs_, {kMost - 1, kMost, "x"}).ok());
        EXPECT_FALSE(check_memory_needs(needs_, {kMost, kMost - 1, "x"}).ok());
      }
    }
  }
}

TEST_F(PreflightTest, ModelLevelHasRoomForTheLargest) {
  configure(compact("module", {"dit", "text_encoder"}));
  EXPECT_THAT(
      items(1),
      ElementsAre("resident 2048",
                  "the largest of the components that exclude each other "
                  "4608"));
  EXPECT_EQ(needs_.host.bytes(), 4 * kPage + 2 * kPage);
}

TEST_F(PreflightTest, AGroupSharesTheHostAndHasShardSlots) {
  OmniDiffusionConfig od = compact("layer", {"dit", "text_encoder"});
  od.diffusion_offload_config->layer_options = {{"dit", "allgather", {}}};
  od.parallel_config.data_parallel_size = 3;
  configure(od);
  // A third of 1024 is 512 in an image; three of them are a slot.
  EXPECT_THAT(
      items(1),
      ElementsAre("resident 2560", "slots of text_encoder 1024",
                  "slots of gathered blocks 3072", "slots of shares 1024"));
  EXPECT_EQ(needs_.host.bytes(), 8 * kPage + kPage);
}

TEST_F(PreflightTest, SharedStateCountsOnce) {
  const int64_t tied = builder_.parameter("transformer.blocks.0", 256);
  builder_.view("transformer.blocks.1", tied);
  configure(compact("layer", {"dit"}));
  EXPECT_THAT(items(1),
              ElementsAre("resident 3840", "slots of transformer 2048"));
  // Shared state has a page, and so would written state.
  EXPECT_EQ(needs_.host.bytes(), 9 * kPage + kPage);
}

TEST_F(PreflightTest, RefusesWithNumbers) {
  configure(compact("layer", {"dit", "text_encoder", "vae"}));
  EXPECT_TRUE(check_memory_needs(needs_, {5632, 36864, "x"}).ok());
  const absl::Status device = check_memory_needs(needs_, {5631, 36864, "x"});
  EXPECT_EQ(device.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(device.message()), HasSubstr("encode_prompt needs"));
  EXPECT_THAT(
      std::string(device.message()),
      HasSubstr(
          "decode needs 5632 bytes of device memory (resident 512, the "
          "largest of the components that exclude each other 2048, slots of "
          "transformer 2048, slots of text_encoder 1024), and 5631 are free"));
  const absl::Status host = check_memory_needs(needs_, {0, 36863, "cgroup /a"});
  EXPECT_THAT(std::string(host.message()), HasSubstr("; decode needs "));
  EXPECT_THAT(std::string(host.message()),
              HasSubstr("host needs 36864 bytes of host memory (images 32768, "
                        "the largest image while it is packed 4096), and 36863 "
                        "are available (cgroup /a)"));
}

}  // namespace
}  // namespace ferry
