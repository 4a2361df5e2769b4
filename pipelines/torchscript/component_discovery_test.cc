#include "pipelines/torchscript/component_discovery.h"

#include <gtest/gtest.h>
#include <torch/script.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "offload/offloadable_module.h"
#include "pipelines/testing/tiny_root.h"

namespace ferry {
namespace {

using torch::jit::Module;

// "role path: stack sizes", to compare at a glance.
std::vector<std::string> summarize(const Discovery& discovery) {
  std::vector<std::string> lines;
  for (const DiscoveredComponent& component : discovery.components) {
    std::string line(to_string(component.role));
    line += " " + component.path + ":";
    for (const auto& stack : component.stacks) {
      line += " " + std::to_string(stack.size());
    }
    lines.push_back(line);
  }
  return lines;
}

void add_names(Module& module, const std::string& attribute,
               const std::vector<std::string>& names) {
  module.register_attribute(
      attribute, c10::ListType::ofStrings(),
      c10::List<std::string>(c10::ArrayRef<std::string>(names)));
}

TEST(ComponentDiscovery, FollowsTheDeclarations) {
  TinyPipelineOptions options;
  options.dits = 2;
  const auto discovery = discover_components(make_tiny_root(options));
  ASSERT_TRUE(discovery.ok()) << discovery.status();
  EXPECT_EQ(
      summarize(*discovery),
      (std::vector<std::string>{"dit transformer: 3", "dit transformer_2: 3",
                                "text_encoder text_encoder: 2", "vae vae:"}));
  EXPECT_EQ(discovery->components[1].stacks[0][2].path,
            "transformer_2.blocks.2");
  EXPECT_TRUE(discovery->warnings.empty());
}

TEST(ComponentDiscovery, FindsWellKnownNamesWithOneWarning) {
  TinyPipelineOptions options;
  options.declared = false;
  options.dits = 2;
  const auto discovery = discover_components(make_tiny_root(options));
  ASSERT_TRUE(discovery.ok()) << discovery.status();
  EXPECT_EQ(
      summarize(*discovery),
      (std::vector<std::string>{"dit transformer:", "dit transformer_2:",
                                "text_encoder text_encoder:", "vae vae:"}));
  ASSERT_EQ(discovery->warnings.size(), 1u);
  EXPECT_TRUE(absl::StrContains(discovery->warnings[0], "deprecated"));
}

TEST(ComponentDiscovery, SkipsWhatIsMissingWithAWarning) {
  TinyPipelineOptions options;
  options.declared = false;
  Module root = make_tiny_root(options);
  add_names(root, "_dit_modules", {"nowhere", "transformer", "identity"});
  add_names(root, "_resident_modules", {"transformer.blocks.x"});
  const auto discovery = discover_components(root);
  ASSERT_TRUE(discovery.ok()) << discovery.status();
  EXPECT_EQ(summarize(*discovery),
            (std::vector<std::string>{"dit transformer:"}));
  EXPECT_EQ(discovery->warnings,
            (std::vector<std::string>{
                "_dit_modules: \"nowhere\" does not exist and is skipped",
                "_dit_modules: \"identity\" is no module and is skipped",
                "_resident_modules: \"transformer.blocks.x\" does not exist "
                "and is skipped"}));
}

TEST(ComponentDiscovery, TakesDottedPathsAndTheFirstOfTwoNames) {
  TinyPipelineOptions options;
  options.declared = false;
  Module root = make_tiny_root(options);
  add_names(root, "_dit_modules", {"transformer", "transformer"});
  add_names(root, "_resident_modules",
            {"transformer", "text_encoder.blocks.1"});
  const auto discovery = discover_components(root);
  ASSERT_TRUE(discovery.ok()) << discovery.status();
  EXPECT_EQ(summarize(*discovery),
            (std::vector<std::string>{"dit transformer:",
                                      "resident text_encoder.blocks.1:"}));
}

TEST(ComponentDiscovery, NamesADeclarationOfAnotherType) {
  TinyPipelineOptions options;
  options.declared = false;
  Module root = make_tiny_root(options);
  root.register_attribute("_dit_modules", c10::StringType::get(),
                          "transformer");
  const absl::Status status = discover_components(root).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "_dit_modules: must be List[str]");
}

TEST(ComponentDiscovery, NeedsADit) {
  TinyPipelineOptions options;
  options.declared = false;
  Module root = make_tiny_root(options);
  add_names(root, "_vae_modules", {"vae"});
  const absl::Status status = discover_components(root).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StartsWith(status.message(), "_dit_modules: "));
}

TEST(ComponentDiscovery, NamesADeclaredContainerThatIsMissing) {
  TinyPipelineOptions options;
  options.wrong_plan = true;
  const absl::Status status =
      discover_components(make_tiny_root(options)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "transformer.layers: does not exist, but is declared to hold "
            "blocks");
}

TEST(ComponentDiscovery, ReadsTheComponentsOwnDeclaration) {
  TinyPipelineOptions options;
  options.declared = false;
  Module root = make_tiny_root(options);
  Module dit = root.attr("transformer").toModule();
  dit.register_attribute("_layerwise_offload_blocks_attr",
                         c10::StringType::get(), "blocks");
  const auto deprecated = discover_components(root);
  ASSERT_TRUE(deprecated.ok()) << deprecated.status();
  EXPECT_EQ(summarize(*deprecated)[0], "dit transformer: 3");
  EXPECT_EQ(deprecated->warnings.size(), 2u);

  add_names(dit, "_layerwise_offload_blocks_attrs", {"blocks", "blocks"});
  const absl::Status twice = discover_components(root).status();
  EXPECT_EQ(twice.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(twice.message(),
            "transformer.blocks.0: is a block already, as "
            "transformer.blocks.0");
}

TEST(CountBytes, CountsSharedStorageOnce) {
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  Module block = make_tiny_block(unit, false);
  const int64_t alone = count_bytes(block);
  EXPECT_EQ(alone, 4 * (kTinyWidth * kTinyWidth + kTinyWidth + 1));
  block.register_parameter("tied", block.attr("weight").toTensor().t(), false);
  EXPECT_EQ(count_bytes(block), alone);
}

}  // namespace
}  // namespace ferry
