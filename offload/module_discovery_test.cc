#include "offload/module_discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "offload/testing/tree_builder.h"

namespace ferry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// "role path" of each.
std::vector<std::string> names(const std::vector<FoundComponent>& components) {
  std::vector<std::string> found;
  for (const FoundComponent& component : components) {
    found.push_back(
        absl::StrCat(to_string(component.role), " ", component.path));
  }
  return found;
}

std::vector<std::string> paths(const std::vector<FoundBlock>& blocks) {
  std::vector<std::string> found;
  for (const FoundBlock& block : blocks) found.push_back(block.path);
  return found;
}

class ModuleDiscoveryTest : public testing::Test {
 protected:
  std::vector<std::string> components() {
    warnings_.clear();
    return names(find_components(builder_.tree, &warnings_));
  }

  SupportsComponentDiscovery& declare() {
    builder_.tree.declarations.emplace();
    return *builder_.tree.declarations;
  }

  OffloadPlan& plan() {
    if (!builder_.tree.plan) builder_.tree.plan.emplace();
    return *builder_.tree.plan;
  }

  FoundComponent dit(const std::string& path) {
    return {ComponentRole::kDit, path, builder_.index(path)};
  }

  absl::StatusOr<DitBlocks> dit_blocks(const std::string& path) {
    warnings_.clear();
    return find_dit_blocks(builder_.tree, dit(path), &warnings_);
  }

  std::vector<FoundChild> children(const std::string& path) {
    const DitBlocks blocks = *dit_blocks(path);
    std::vector<std::string> unused;
    const auto all = find_components(builder_.tree, &unused);
    return find_dit_children(builder_.tree, dit(path), blocks, all, &warnings_);
  }

  TreeBuilder builder_;
  std::vector<std::string> warnings_;
};

TEST_F(ModuleDiscoveryTest, StandardAttributesAreFoundInOrderWithOneWarning) {
  for (const char* name :
       {"vae", "mllm", "model", "text_encoder_3", "transformer", "sr_dit",
        "sound_tokenizer", "vision_encoder", "text_encoder", "unet"}) {
    builder_.module(name);
  }
  EXPECT_THAT(
      components(),
      ElementsAre("dit transformer", "dit sr_dit", "dit model",
                  "text_encoder text_encoder", "text_encoder text_encoder_3",
                  "text_encoder vision_encoder", "text_encoder mllm", "vae vae",
                  "vae sound_tokenizer"));
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], HasSubstr("deprecated"));
}

TEST_F(ModuleDiscoveryTest, TheSameEncoderTwiceIsOne) {
  builder_.module("text_encoder");
  builder_.alias("mllm", "text_encoder");
  EXPECT_THAT(components(), ElementsAre("text_encoder text_encoder"));
  declare().encoder_modules = {"mllm", "text_encoder", "mllm"};
  EXPECT_THAT(components(), ElementsAre("text_encoder mllm"));
}

TEST_F(ModuleDiscoveryTest, AttributeThatIsNoModuleIsSkipped) {
  builder_.module("").other_attributes = {"dit", "vae"};
  EXPECT_THAT(components(), IsEmpty());
  EXPECT_THAT(warnings_, IsEmpty());
  declare().dit_modules = {"dit"};
  EXPECT_THAT(components(), IsEmpty());
  EXPECT_THAT(warnings_, ElementsAre("_dit_modules: \"dit\" is no module and "
                                     "is skipped"));
}

TEST_F(ModuleDiscoveryTest, DeclarationsHideUndeclaredAttributes) {
  builder_.module("custom_dit");
  builder_.module("transformer");
  declare().dit_modules = {"custom_dit"};
  EXPECT_THAT(components(), ElementsAre("dit custom_dit"));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(ModuleDiscoveryTest, MissingAttributesAndIntermediatesAreSkipped) {
  builder_.module("pipe.dit");
  builder_.module("pipe").other_attributes = {"config"};
  declare().dit_modules = {"dit", "nowhere.dit", "pipe.config.dit", "pipe.dit"};
  EXPECT_THAT(components(), ElementsAre("dit pipe.dit"));
  EXPECT_THAT(warnings_, SizeIs(3));
}

TEST_F(ModuleDiscoveryTest, ResidentsAreFoundByDottedPaths) {
  builder_.module("a.b.time_embed");
  declare().resident_modules = {"a.b.time_embed"};
  EXPECT_THAT(components(), ElementsAre("resident a.b.time_embed"));
}

TEST_F(ModuleDiscoveryTest, TwoVaesAreBothFound) {
  builder_.module("vae");
  builder_.module("audio_vae");
  declare().vae_modules = {"audio_vae", "vae"};
  EXPECT_THAT(components(), ElementsAre("vae audio_vae", "vae vae"));
}

TEST_F(ModuleDiscoveryTest, WarnsOfPlansForComponentsThatDoNotExist) {
  builder_.module("dit");
  declare().dit_modules = {"dit"};
  plan().block_attrs["unet"] = {"blocks"};
  plan().resident_dit_paths = {"dit", "unet"};
  plan().on_demand_component_paths = {"vae"};
  components();
  EXPECT_THAT(
      warnings_,
      ElementsAre("_offload_plan.block_attrs: \"unet\" is no component of "
                  "role dit",
                  "_offload_plan.resident_dit_paths: \"unet\" is no component "
                  "of role dit",
                  "_offload_plan.on_demand_component_paths: \"vae\" is no "
                  "component of role vae"));
}

TEST_F(ModuleDiscoveryTest, ThePlanWinsOverTheDitsOwnDeclaration) {
  builder_.blocks("dit.layers", 2);
  builder_.blocks("dit.blocks", 3);
  builder_.module("dit").blocks_attrs = {"layers"};
  plan().block_attrs["dit"] = {"blocks"};
  EXPECT_THAT(paths(dit_blocks("dit")->blocks),
              ElementsAre("dit.blocks.0", "dit.blocks.1", "dit.blocks.2"));
  plan().block_attrs.clear();
  EXPECT_THAT(paths(dit_blocks("dit")->blocks),
              ElementsAre("dit.layers.0", "dit.layers.1"));
}

TEST_F(ModuleDiscoveryTest, ContainersAreConcatenatedInDeclarationOrder) {
  builder_.blocks("dit.a", 1);
  builder_.blocks("dit.b", 2);
  builder_.module("dit").blocks_attrs = {"b", "a"};
  EXPECT_THAT(paths(dit_blocks("dit")->blocks),
              ElementsAre("dit.b.0", "dit.b.1", "dit.a.0"));
}

TEST_F(ModuleDiscoveryTest, AnEmptyContainerHasNoBlocks) {
  builder_.blocks("dit.blocks", 0);
  builder_.module("dit").blocks_attrs = {"blocks"};
  EXPECT_THAT(dit_blocks("dit")->blocks, IsEmpty());
}

TEST_F(ModuleDiscoveryTest, NoDeclarationHasNoBlocks) {
  builder_.blocks("dit.blocks", 3);
  EXPECT_THAT(dit_blocks("dit")->blocks, IsEmpty());
}

TEST_F(ModuleDiscoveryTest, TheDeprecatedSingularWorksWithAWarning) {
  builder_.blocks("dit.blocks", 3);
  builder_.module("dit").deprecated_blocks_attr = {"blocks"};
  EXPECT_THAT(dit_blocks("dit")->blocks, SizeIs(3));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("is deprecated")));
  builder_.module("dit").blocks_attrs.emplace();
  EXPECT_THAT(dit_blocks("dit")->blocks, SizeIs(3));
}

TEST_F(ModuleDiscoveryTest, DeclaredContainersThatAreMissingAreAllNamed) {
  builder_.blocks("dit.inner.blocks", 3);
  builder_.module("dit").blocks_attrs = {"layers", "inner.blocks"};
  const absl::Status status = dit_blocks("dit").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "dit.layers: does not exist, but is declared to hold blocks; "
            "dit.inner.blocks: does not exist, but is declared to hold "
            "blocks");
}

TEST_F(ModuleDiscoveryTest, AContainerThatIsNoListIsOneBlock) {
  builder_.module("dit.norm");
  builder_.module("dit").other_attributes = {"scale"};
  builder_.module("dit").blocks_attrs = {"norm", "scale"};
  EXPECT_THAT(paths(dit_blocks("dit")->blocks), ElementsAre("dit.norm"));
  EXPECT_THAT(warnings_, SizeIs(2));
}

TEST_F(ModuleDiscoveryTest, DeclaredChildrenOwnTheirResidency) {
  builder_.blocks("dit.blocks", 2);
  builder_.blocks("dit.context.tower", 2);
  builder_.blocks("dit.other.layers", 2);
  builder_.module("dit").blocks_attrs = {"blocks"};
  plan().offload_submodules["context"] = "tower";
  const auto found = children("dit");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(paths(found[0].blocks),
              ElementsAre("dit.context.tower.0", "dit.context.tower.1"));
}

TEST_F(ModuleDiscoveryTest, LargeChildrenOwnTheirResidencyLoadedOrNot) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  builder_.blocks("dit.blocks", 2);
  builder_.module("dit").blocks_attrs = {"blocks"};
  builder_.meta_parameter("dit.small", kGiB);
  builder_.meta_parameter("dit.large", kGiB + 1);
  builder_.blocks("dit.large.model.layers", 2);
  builder_.parameter("dit.whole.a", kGiB);
  builder_.parameter("dit.whole.b", 1);
  const auto found = children("dit");
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].path, "dit.large");
  EXPECT_THAT(paths(found[0].blocks), ElementsAre("dit.large.model.layers.0",
                                                  "dit.large.model.layers.1"));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("because of its name")));
  EXPECT_EQ(found[1].path, "dit.whole");
  EXPECT_THAT(found[1].blocks, IsEmpty());
}

TEST_F(ModuleDiscoveryTest, AChildThatIsADitIsLeftToItsOwnComponent) {
  builder_.blocks("dit.blocks", 2);
  builder_.module("dit").blocks_attrs = {"blocks"};
  builder_.blocks("dit.language_model.layers", 2);
  declare().dit_modules = {"dit", "dit.language_model"};
  plan().offload_submodules["language_model"] = "layers";
  const auto found = children("dit");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_TRUE(found[0].is_dit);
  EXPECT_THAT(found[0].blocks, IsEmpty());
}

TEST_F(ModuleDiscoveryTest, DiscoverTellsAllThatIsWrongWithAPackage) {
  builder_.blocks("a.blocks", 2);
  builder_.alias("b.blocks", "a.blocks");
  builder_.module("c");
  declare().dit_modules = {"a", "b", "c"};
  plan().block_attrs = {
      {"a", {"blocks"}}, {"b", {"blocks"}}, {"c", {"layers"}}};
  const absl::Status status = discover(builder_.tree).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "b.blocks.0: is a block already, as a.blocks.0; "
            "b.blocks.1: is a block already, as a.blocks.1; "
            "c.layers: does not exist, but is declared to hold blocks");
}

TEST_F(ModuleDiscoveryTest, DiscoverGivesAModuleItsFirstRole) {
  builder_.blocks("dit.blocks", 2);
  SupportsComponentDiscovery& declared = declare();
  declared.dit_modules = {"dit"};
  declared.resident_modules = {"dit", "dit.blocks.0"};
  const auto discovery = discover(builder_.tree);
  ASSERT_TRUE(discovery.ok()) << discovery.status();
  ASSERT_THAT(discovery->components, SizeIs(2));
  EXPECT_EQ(discovery->components[0].component.role, ComponentRole::kDit);
  EXPECT_EQ(discovery->components[1].component.path, "dit.blocks.0");
}

}  // namespace
}  // namespace ferry
