#include "offload/held_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "offload/offload_config.h"
#include "offload/offload_plan.h"
#include "offload/omni_diffusion_config.h"
#include "offload/plan_resolver.h"
#include "offload/resolved_plan.h"
#include "offload/testing/tree_builder.h"

namespace ferry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A DiT with three blocks, an encoder with two, and a VAE.
class HeldWeightsTest : public testing::Test {
 protected:
  HeldWeightsTest() {
    SupportsComponentDiscovery& declared = builder_.tree.declarations.emplace();
    declared.dit_modules = {"dit"};
    declared.encoder_modules = {"text_encoder"};
    declared.vae_modules = {"vae"};
    OffloadPlan& plan = builder_.tree.plan.emplace();
    plan.block_attrs["dit"] = {"blocks"};
    plan.resident_dit_paths = {"dit"};
    plan.encoder_block_attrs["text_encoder"] = {"layers"};
    builder_.blocks("dit.blocks", 3, 1000);
    builder_.blocks("text_encoder.layers", 2, 500);
    builder_.parameter("dit", 50);
    builder_.parameter("vae", 70);
    builder_.module("vae").on_demand_lifecycle = true;
  }

  // As an analysis of the model's code does.
  void hold(const std::string& path, const std::string& reason) {
    for (ModuleTensor& tensor : builder_.module(path).tensors) {
      tensor.resident_reason = reason;
    }
  }

  void hold_all_blocks() {
    for (const char* block : {"0", "1", "2"}) {
      hold(absl::StrCat("dit.blocks.", block), "is used by an interface");
    }
  }

  ResolvedPlan resolve(const char* mode,
                       const std::vector<std::string>& components,
                       int64_t resident = 0) {
    OmniDiffusionConfig config;
    DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
    compact.mode = mode;
    compact.components = components;
    if (resident > 0) compact.layer_options = {{"dit", {}, resident}};
    const auto parsed = OffloadConfig::from_od_config(config);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    auto plan = resolve_offload_plan(builder_.tree, *parsed);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *std::move(plan);
  }

  static std::vector<std::string> lines(const ResolvedPlan& plan) {
    std::vector<std::string> lines;
    for (const HeldWeights& held : find_held_weights(plan)) {
      lines.push_back(
          absl::StrCat(held.path, " ", held.bytes, " ", held.reason));
    }
    return lines;
  }

  TreeBuilder builder_;
};

TEST_F(HeldWeightsTest, NothingIsHeldWhereAllThatIsSelectedMoves) {
  for (const char* mode : {"layer", "module"}) {
    const ResolvedPlan plan = resolve(mode, {"dit", "text_encoder"});
    EXPECT_THAT(lines(plan), IsEmpty());
    EXPECT_EQ(explain_no_movement(plan), std::nullopt);
  }
}

TEST_F(HeldWeightsTest, TheLargestIsFirst) {
  const int64_t shared = builder_.parameter("dit.blocks.1", 3000);
  builder_.view("vae", shared, 3000);
  hold("dit.blocks.0", "is written");
  hold("text_encoder.layers.1", "is used by a hook");
  const ResolvedPlan plan = resolve("layer", {"dit", "text_encoder"});
  const std::vector<std::string> all = lines(plan);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(absl::StartsWith(all[0], "dit.blocks.1."));
  EXPECT_THAT(all[0], HasSubstr(" 3000 is used by "));
  EXPECT_THAT(all[1], HasSubstr(" 1000 is written"));
  EXPECT_THAT(all[2], HasSubstr(" 500 is used by a hook"));
  EXPECT_EQ(total_bytes(find_held_weights(plan)), 4500);
  // The others move.
  EXPECT_EQ(explain_no_movement(plan), std::nullopt);
}

TEST_F(HeldWeightsTest, WhatThePolicyLeavesThereIsNotHeld) {
  hold_all_blocks();
  hold("text_encoder.layers.0", "is written");
  hold("dit", "is written");
  hold("vae", "is written");
  EXPECT_THAT(lines(resolve("layer", {"dit"}, 3)), IsEmpty());
  EXPECT_THAT(lines(resolve("layer", {"text_encoder"})),
              ElementsAre(HasSubstr("text_encoder.layers.0")));
  EXPECT_THAT(
      lines(resolve("layer", {"text_encoder", "vae"})),
      ElementsAre(HasSubstr("text_encoder.layers.0"), HasSubstr("vae.")));
}

TEST_F(HeldWeightsTest, ItSaysThatNothingIsStreamed) {
  hold_all_blocks();
  const auto text = explain_no_movement(resolve("layer", {"dit"}));
  ASSERT_TRUE(text.has_value());
  EXPECT_THAT(*text, HasSubstr("nothing is streamed, although"));
  for (const char* block : {"0", "1", "2"}) {
    EXPECT_THAT(*text, HasSubstr(absl::StrCat("dit.blocks.", block, ".")));
  }
  EXPECT_THAT(*text, HasSubstr("(1000 bytes) is used by an interface"));
  EXPECT_THAT(*text, Not(HasSubstr("more")));
  // The encoder's blocks move.
  EXPECT_EQ(explain_no_movement(resolve("layer", {"dit", "text_encoder"})),
            std::nullopt);
}

TEST_F(HeldWeightsTest, ASentenceHasThreeReasons) {
  hold_all_blocks();
  for (const char* layer : {"0", "1"}) {
    hold(absl::StrCat("text_encoder.layers.", layer), "is written");
  }
  const auto text =
      explain_no_movement(resolve("layer", {"dit", "text_encoder"}));
  ASSERT_TRUE(text.has_value());
  EXPECT_TRUE(absl::EndsWith(*text, "; and 2 more, 1000 bytes")) << *text;
}

TEST_F(HeldWeightsTest, ComponentsWhoseStateIsHeldUnderModelOffload) {
  hold_all_blocks();
  hold("dit", "is written");
  hold("text_encoder.layers.0", "is written");
  hold("text_encoder.layers.1", "is written");
  const ResolvedPlan plan = resolve("module", {"dit", "text_encoder"});
  EXPECT_EQ(lines(plan).size(), 6u);
  EXPECT_TRUE(explain_no_movement(plan).has_value());
}

TEST_F(HeldWeightsTest, AComponentWithoutBlocksIsHeldAsAWhole) {
  // The pipeline's author forgot them; old options take what there is.
  builder_.tree.plan->block_attrs["dit"] = {"nothing"};
  builder_.module("dit").other_attributes.insert("nothing");
  OmniDiffusionConfig config;
  config.enable_layerwise_offload = true;
  const auto plan = resolve_offload_plan(
      builder_.tree, *OffloadConfig::from_od_config(config));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(lines(*plan), Not(IsEmpty()));
}

TEST_F(HeldWeightsTest, LargeSumsAreSaturated) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(total_bytes({{"a", kMost, "x"}, {"b", 1, "x"}}), kMost);
}

}  // namespace
}  // namespace ferry
