#include "offload/plan_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "offload/testing/tree_builder.h"

namespace ferry {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Names = std::vector<std::string>;

OmniDiffusionConfig compact(const std::string& mode, const Names& components) {
  OmniDiffusionConfig config;
  config.diffusion_offload_config.emplace();
  config.diffusion_offload_config->mode = mode;
  config.diffusion_offload_config->components = components;
  return config;
}

OmniDiffusionConfig with_options(const Names& components,
                                 LayerOffloadOptions options) {
  OmniDiffusionConfig config = compact("layer", components);
  config.diffusion_offload_config->layer_options = {std::move(options)};
  return config;
}

OmniDiffusionConfig legacy_layer() {
  OmniDiffusionConfig config;
  config.enable_layerwise_offload = true;
  return config;
}

OmniDiffusionConfig legacy_distributed(int64_t resident_layers) {
  OmniDiffusionConfig config;
  config.enable_distributed_layerwise_offload = true;
  config.dlo_use_allgather = false;
  config.dlo_resident_layers = resident_layers;
  return config;
}

// "path[ selected][ on-demand] streamed+resident …" for each component, so
// that a whole plan can be compared at a glance.
Names summarize(const std::vector<PlannedComponent>& components) {
  Names lines;
  for (const PlannedComponent& component : components) {
    std::string line = component.path;
    if (component.selected) line += " selected";
    if (component.on_demand) line += " on-demand";
    for (const PlannedStack& stack : component.stacks) {
      const int64_t resident = stack.resident_blocks();
      absl::StrAppend(&line, " ",
                      static_cast<int64_t>(stack.blocks.size()) - resident, "+",
                      resident);
    }
    lines.push_back(line);
    for (const std::string& child : summarize(component.children)) {
      lines.push_back("  " + child);
    }
  }
  return lines;
}

// A pipeline with a DiT of four blocks, a text encoder and a VAE.
class PlanResolverTest : public testing::Test {
 protected:
  PlanResolverTest() {
    builder_.blocks("transformer.blocks", 4);
    builder_.module("transformer").blocks_attrs = {"blocks"};
    builder_.blocks("text_encoder.layers", 2);
    builder_.module("vae");
    builder_.tree.declarations.emplace();
    declared().dit_modules = {"transformer"};
    declared().encoder_modules = {"text_encoder"};
    declared().vae_modules = {"vae"};
    builder_.tree.plan.emplace();
  }

  SupportsComponentDiscovery& declared() { return *builder_.tree.declarations; }
  OffloadPlan& plan() { return *builder_.tree.plan; }

  void stream_encoder() {
    plan().encoder_block_attrs["text_encoder"] = {"layers"};
  }

  void stage(const std::string& path) {
    plan().on_demand_component_paths.insert(path);
    builder_.module(path).on_demand_lifecycle = true;
  }

  absl::StatusOr<ResolvedPlan> resolve(const OmniDiffusionConfig& od) {
    const auto config = OffloadConfig::from_od_config(od);
    EXPECT_TRUE(config.ok()) << config.status();
    return resolve_offload_plan(builder_.tree, *config);
  }

  Names resolved(const OmniDiffusionConfig& od) {
    const auto result = resolve(od);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    warnings_ = result->warnings;
    return summarize(result->components);
  }

  std::string refusal(const OmniDiffusionConfig& od) {
    const auto result = resolve(od);
    if (result.ok()) return "";
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(result.status().message());
  }

  TreeBuilder builder_;
  Names warnings_;
};

TEST_F(PlanResolverTest, NoneTouchesNothing) {
  EXPECT_THAT(resolved({}), ElementsAre("transformer selected",
                                        "text_encoder selected", "vae"));
}

TEST_F(PlanResolverTest, EncoderTypedByThePlanIsSelected) {
  builder_.blocks("mllm.layers", 2);
  declared().encoder_modules = {"mllm"};
  plan().encoder_component_types["mllm"] = "text_encoder";
  plan().encoder_block_attrs["mllm"] = {"layers"};
  EXPECT_THAT(resolved(compact("layer", {"text_encoder"})),
              ElementsAre("transformer", "mllm selected 2+0", "vae"));
}

TEST_F(PlanResolverTest, UnknownEncoderTypeIsRefusedWhenSelected) {
  plan().encoder_component_types["text_encoder"] = "image_encoder";
  stream_encoder();
  EXPECT_THAT(refusal(compact("layer", {"dit"})),
              HasSubstr("encoder_component_types: text_encoder is "
                        "\"image_encoder\"; allowed is \"text_encoder\""));
  EXPECT_THAT(resolved(legacy_layer()), SizeIs(3));
}

TEST_F(PlanResolverTest, AnEncoderWithOnePathHasOneStackInOrder) {
  stream_encoder();
  const auto result = resolve(compact("layer", {"text_encoder"}));
  ASSERT_TRUE(result.ok()) << result.status();
  const PlannedComponent& encoder = result->components[1];
  ASSERT_THAT(encoder.stacks, SizeIs(1));
  EXPECT_EQ(encoder.stacks[0].blocks[0].path, "text_encoder.layers.0");
  EXPECT_EQ(encoder.stacks[0].blocks[1].path, "text_encoder.layers.1");
}

TEST_F(PlanResolverTest, EachEncoderContainerIsARingOfItsOwn) {
  builder_.blocks("text_encoder.vision.blocks", 3);
  plan().encoder_block_attrs["text_encoder"] = {"vision.blocks", "layers"};
  stage("text_encoder");
  EXPECT_THAT(resolved(compact("layer", {"text_encoder"})),
              ElementsAre("transformer",
                          "text_encoder selected on-demand 3+0 2+0", "vae"));
}

TEST_F(PlanResolverTest, LegacyStagesWhatThePlanDeclares) {
  stage("text_encoder");
  stage("vae");
  EXPECT_THAT(resolved(legacy_layer()),
              ElementsAre("transformer selected 4+0",
                          "text_encoder selected on-demand", "vae on-demand"));
}

TEST_F(PlanResolverTest, AnExplicitSelectionLeavesTheVaeAlone) {
  stage("vae");
  EXPECT_THAT(resolved(compact("layer", {"dit"})),
              ElementsAre("transformer selected 4+0", "text_encoder", "vae"));
}

TEST_F(PlanResolverTest, AnExplicitVaeIsStaged) {
  builder_.module("vae").on_demand_lifecycle = true;
  EXPECT_THAT(
      resolved(compact("layer", {"vae"})),
      ElementsAre("transformer", "text_encoder", "vae selected on-demand"));
}

TEST_F(PlanResolverTest, AnExplicitVaeNeedsALifecycle) {
  EXPECT_THAT(refusal(compact("layer", {"vae"})),
              AllOf(HasSubstr("vae: "), HasSubstr("_on_demand_lifecycle")));
}

TEST_F(PlanResolverTest, AnExplicitVaeNeedsAVae) {
  declared().vae_modules.clear();
  EXPECT_THAT(refusal(compact("layer", {"vae"})),
              HasSubstr("\"vae\" is selected, and there is no VAE"));
}

TEST_F(PlanResolverTest, OnDemandWithoutBlocksHasNoStacks) {
  stage("text_encoder");
  EXPECT_THAT(
      resolved(compact("layer", {"text_encoder"})),
      ElementsAre("transformer", "text_encoder selected on-demand", "vae"));
}

TEST_F(PlanResolverTest, ModelLevelHasNeitherStacksNorStaging) {
  stream_encoder();
  stage("text_encoder");
  stage("vae");
  EXPECT_THAT(
      resolved(compact("module", {"text_encoder", "vae"})),
      ElementsAre("transformer", "text_encoder selected", "vae selected"));
}

TEST_F(PlanResolverTest, ResidentLayersAreTakenOffTheRing) {
  plan().resident_dit_paths = {"transformer"};
  EXPECT_THAT(resolved(with_options({"dit"}, {"dit", {}, 2}))[0],
              "transformer selected 2+2");
  EXPECT_THAT(resolved(with_options({"dit"}, {"dit", {}, 9}))[0],
              "transformer selected 0+4");
}

TEST_F(PlanResolverTest, ResidentBlocksAreSpreadOverTheRing) {
  plan().resident_dit_paths = {"transformer"};
  const auto result = resolve(with_options({"dit"}, {"dit", {}, 2}));
  ASSERT_TRUE(result.ok()) << result.status();
  std::vector<bool> resident;
  for (const auto& block : result->components[0].stacks[0].blocks) {
    resident.push_back(block.resident);
  }
  EXPECT_THAT(resident, ElementsAre(false, true, false, true));
}

TEST_F(PlanResolverTest, OneStreamedBlockIsNoRing) {
  plan().resident_dit_paths = {"transformer"};
  EXPECT_THAT(refusal(with_options({"dit"}, {"dit", {}, 3})),
              HasSubstr("has 4 blocks, of which 3 would stay"));
  EXPECT_THAT(resolved(legacy_distributed(3))[0], "transformer selected 0+4");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("one block alone")));
}

TEST_F(PlanResolverTest, ResidentLayersNeedADeclaredDit) {
  EXPECT_THAT(refusal(with_options({"dit"}, {"dit", {}, 2})),
              HasSubstr("resident_layers: 2 blocks are to stay"));
  EXPECT_THAT(resolved(legacy_distributed(2))[0], "transformer selected 4+0");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("all are streamed")));
}

TEST_F(PlanResolverTest, ASelectedDitHasToExist) {
  declared().dit_modules.clear();
  EXPECT_THAT(refusal(compact("layer", {"dit"})),
              HasSubstr("\"dit\" is selected, and there is no DiT"));
}

TEST_F(PlanResolverTest, LegacyWithoutDitIsACompleteNoOp) {
  declared().dit_modules.clear();
  const auto result = resolve(legacy_layer());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->skip_reason.has_value());
  const auto distributed = resolve(legacy_distributed(0));
  ASSERT_TRUE(distributed.ok()) << distributed.status();
  EXPECT_FALSE(distributed->skip_reason.has_value());
}

TEST_F(PlanResolverTest, ModelLevelNeedsBothSidesOfTheSwap) {
  declared().encoder_modules.clear();
  EXPECT_THAT(refusal(compact("module", {"dit"})),
              HasSubstr("needs an encoder"));
  declared().dit_modules.clear();
  EXPECT_THAT(refusal(compact("module", {"dit"})), HasSubstr("needs a DiT"));
}

TEST_F(PlanResolverTest, ASelectedTextEncoderHasToExist) {
  builder_.module("image_encoder");
  declared().encoder_modules = {"image_encoder"};
  EXPECT_THAT(refusal(compact("layer", {"dit", "text_encoder"})),
              HasSubstr("\"text_encoder\" is selected, and there is none"));
}

TEST_F(PlanResolverTest, ASelectedEncoderNeedsAPlan) {
  EXPECT_THAT(refusal(compact("layer", {"text_encoder"})),
              HasSubstr("text_encoder: is selected, but neither"));
}

TEST_F(PlanResolverTest, OnDemandNeedsTheLifecycle) {
  plan().on_demand_component_paths = {"text_encoder", "vae"};
  EXPECT_THAT(refusal(legacy_layer()),
              AllOf(HasSubstr("text_encoder: is to be staged on demand"),
                    HasSubstr("vae: is to be staged on demand")));
}

TEST_F(PlanResolverTest, ASelectedDitNeedsTwoBlocks) {
  builder_.blocks("other.blocks", 1);
  plan().block_attrs["transformer"] = {};
  declared().dit_modules = {"transformer", "other"};
  builder_.module("other").blocks_attrs = {"blocks"};
  EXPECT_THAT(refusal(compact("layer", {"dit"})),
              AllOf(HasSubstr("transformer: is selected, but declares no "
                              "blocks"),
                    HasSubstr("other: has 1 blocks")));
  EXPECT_THAT(resolved(legacy_layer()),
              ElementsAre("transformer selected", "other selected",
                          "text_encoder selected", "vae"));
  EXPECT_THAT(warnings_, SizeIs(2));
}

TEST_F(PlanResolverTest, AGatheredEncoderHasToBeReplicated) {
  stream_encoder();
  OmniDiffusionConfig od =
      with_options({"text_encoder"}, {"text_encoder", "allgather", {}});
  EXPECT_THAT(resolved(od)[1], "text_encoder selected 2+0");
  od.parallel_config.data_parallel_size = 2;
  EXPECT_THAT(refusal(od), HasSubstr("encoder_dlo_weight_replication"));
  // A rank that holds a stub refuses it too.
  builder_.module("text_encoder").is_loaded = false;
  EXPECT_THAT(refusal(od), HasSubstr("encoder_dlo_weight_replication"));
}

TEST_F(PlanResolverTest, AGatheredEncoderNeedsBlocks) {
  stage("text_encoder");
  EXPECT_THAT(refusal(with_options({"text_encoder"},
                                   {"text_encoder", "allgather", {}})),
              HasSubstr("\"allgather\" needs blocks"));
}

TEST_F(PlanResolverTest, AStubHasNoStacksAndIsNoError) {
  plan().encoder_block_attrs["text_encoder"] = {"nowhere"};
  stage("text_encoder");
  EXPECT_THAT(refusal(compact("layer", {"text_encoder"})),
              HasSubstr("text_encoder.nowhere: is no list of two or more"));
  builder_.module("text_encoder").is_loaded = false;
  EXPECT_THAT(resolved(compact("layer", {"text_encoder"}))[1],
              "text_encoder selected on-demand");
}

TEST_F(PlanResolverTest, LegacySkipsStacksThatCannotBeStreamed) {
  builder_.blocks("text_encoder.one", 1);
  plan().encoder_block_attrs["text_encoder"] = {"one", "nowhere", "layers"};
  EXPECT_THAT(resolved(legacy_layer())[1], "text_encoder selected 2+0");
  EXPECT_THAT(warnings_, SizeIs(2));
}

TEST_F(PlanResolverTest, TwoDitsCannotClaimOneBlockList) {
  builder_.alias("sr_dit.blocks", "transformer.blocks");
  builder_.module("sr_dit").blocks_attrs = {"blocks"};
  declared().dit_modules = {"transformer", "sr_dit"};
  EXPECT_THAT(refusal(legacy_layer()),
              HasSubstr("sr_dit.blocks.0: is claimed by both transformer and "
                        "sr_dit"));
}

TEST_F(PlanResolverTest, ChildrenAreResolvedForDistributedOnly) {
  builder_.blocks("transformer.context.layers", 3);
  builder_.module("transformer.adapter");
  plan().offload_submodules = {{"context", "layers"}, {"adapter", "layers"}};
  EXPECT_THAT(resolved(legacy_layer())[0], "transformer selected 4+0");
  EXPECT_THAT(refusal(legacy_distributed(0)),
              HasSubstr("transformer.adapter: is to be staged on demand"));
  builder_.module("transformer.adapter").on_demand_lifecycle = true;
  EXPECT_THAT(resolved(legacy_distributed(0)),
              ElementsAre("transformer selected 4+0",
                          "  transformer.context selected 3+0",
                          "  transformer.adapter selected on-demand",
                          "text_encoder selected", "vae"));
}

TEST_F(PlanResolverTest, ChildrenKeepTheirRingWhenAllBlocksStay) {
  builder_.blocks("transformer.context.layers", 2);
  plan().offload_submodules = {{"context", "layers"}};
  plan().resident_dit_paths = {"transformer"};
  EXPECT_THAT(resolved(legacy_distributed(4))[1],
              "  transformer.context selected 2+0");
}

TEST_F(PlanResolverTest, ResolvingTwiceGivesTheSame) {
  stream_encoder();
  const auto first = resolve(legacy_distributed(0));
  const auto second = resolve(legacy_distributed(0));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(summarize(first->components), summarize(second->components));
  EXPECT_EQ(first->warnings, second->warnings);
}

}  // namespace
}  // namespace ferry
