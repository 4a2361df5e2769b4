#include "pipelines/torchscript/module_tree_reader.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/custom_class.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "offload/component_role.h"
#include "offload/module_discovery.h"
#include "offload/module_tree.h"
#include "pipelines/testing/tiny_root.h"

namespace ferry {
namespace {

using torch::jit::Module;

// "role path: stack sizes", to compare at a glance.
std::vector<std::string> summarize(const Discovery& discovery) {
  std::vector<std::string> lines;
  for (const DiscoveredComponent& component : discovery.components) {
    std::string line(to_string(component.component.role));
    line += " " + component.component.path + ":";
    for (const auto& stack : component.stacks) {
      line += " " + std::to_string(stack.size());
    }
    lines.push_back(line);
  }
  return lines;
}

absl::StatusOr<Discovery> discover_components(const Module& root) {
  const auto tree = read_module_tree(root);
  if (!tree.ok()) return tree.status();
  return discover(tree->tree);
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
  EXPECT_TRUE(absl::StartsWith(twice.message(),
                               "transformer.blocks.0: is a block already, as "
                               "transformer.blocks.0; "))
      << twice;
}

// Names of a node's tensors that have memory.
std::vector<std::string> tensor_names(const ModuleNode& node) {
  std::vector<std::string> names;
  for (const ModuleTensor& tensor : node.tensors) {
    if (tensor.storage >= 0) names.push_back(tensor.name);
  }
  return names;
}

TEST(ModuleTreeReader, DescribesEveryModuleOnceInOrder) {
  const auto tree = read_module_tree(make_tiny_root({}));
  ASSERT_TRUE(tree.ok()) << tree.status();
  ASSERT_EQ(tree->modules.size(), tree->tree.nodes.size());
  const ModuleLookup found = tree->tree.find(0, "transformer.blocks.1");
  ASSERT_EQ(found.kind, ModuleLookup::Kind::kModule);
  EXPECT_EQ(tensor_names(tree->tree.nodes[found.module]),
            (std::vector<std::string>{"weight", "bias", "scale"}));
  EXPECT_TRUE(tree->modules[found.module].hasattr("scale"));
  const ModuleLookup list = tree->tree.find(0, "transformer.blocks");
  EXPECT_TRUE(tree->tree.nodes[list.module].is_list);
  EXPECT_FALSE(tree->tree.nodes[0].is_list);
  EXPECT_EQ(tree->tree.find(0, "_offload_plan").kind,
            ModuleLookup::Kind::kMissing);
}

TEST(ModuleTreeReader, CountsSharedStorageOnce) {
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  Module block = make_tiny_block(unit, false);
  constexpr int64_t kAlone = 4 * (kTinyWidth * kTinyWidth + kTinyWidth + 1);
  EXPECT_EQ(read_module_tree(block)->tree.storage_bytes(0), kAlone);
  const at::Tensor weight = block.attr("weight").toTensor();
  block.register_parameter("tied", weight.t(), false);
  block.register_buffer("part", weight.slice(0, 1, 2));
  block.register_buffer("wide", weight.slice(0, 0, 1).expand({64, 16}));
  const auto tree = read_module_tree(block);
  EXPECT_EQ(tree->tree.storage_bytes(0), kAlone);
  const std::vector<ModuleTensor>& tensors = tree->tree.nodes[0].tensors;
  ASSERT_EQ(tensors.size(), 6u);
  EXPECT_EQ(tensors[3].storage, tensors[0].storage);
  EXPECT_NE(tensors[3].identity, tensors[0].identity);
  EXPECT_TRUE(tensors[3].is_parameter);
  EXPECT_EQ(tensors[5].bytes, 64 * 16 * 4);
}

TEST(ModuleTreeReader, FindsTensorsInsideOtherAttributes) {
  const at::Tensor a = at::ones({2});
  const at::Tensor b = at::ones({3});
  Module module("Holder");
  module.register_attribute("plain", c10::TensorType::get(), a);
  module.register_attribute("items", c10::ListType::ofTensors(),
                            c10::List<at::Tensor>({a, b}));
  module.register_attribute(
      "pair",
      c10::TupleType::create({c10::TensorType::get(), c10::IntType::get()}),
      c10::ivalue::Tuple::create({b, 7}));
  c10::Dict<std::string, at::Tensor> named;
  named.insert("k", a);
  module.register_attribute(
      "named",
      c10::DictType::create(c10::StringType::get(), c10::TensorType::get()),
      named);
  module.register_attribute("maybe",
                            c10::OptionalType::create(c10::TensorType::get()),
                            c10::IValue());
  module.register_attribute("sizes", c10::ListType::ofInts(),
                            c10::List<int64_t>({1, 2}));
  const auto tree = read_module_tree(module);
  ASSERT_TRUE(tree.ok()) << tree.status();
  EXPECT_EQ(tensor_names(tree->tree.nodes[0]),
            (std::vector<std::string>{"plain", "items[0]", "items[1]",
                                      "pair[0]", "named[k]"}));
  EXPECT_EQ(tree->tree.storage_bytes(0), 20);
  EXPECT_EQ(tree->tree.nodes[0].other_attributes.count("maybe"), 0u);
  EXPECT_EQ(tree->tree.nodes[0].other_attributes.count("sizes"), 1u);
}

TEST(ModuleTreeReader, FindsConstantsThatTracingBaked) {
  const at::Tensor table = at::ones({5});
  const auto traced = torch::jit::tracer::trace(
      {at::ones({5})},
      [&](torch::jit::Stack inputs) {
        return torch::jit::Stack{inputs[0].toTensor() * table +
                                 at::scalar_tensor(2.0)};
      },
      [](const torch::autograd::Variable&) { return std::string(); });
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  Module module(c10::QualifiedName("__torch__.Baked"), unit);
  // A method takes the module itself first.
  const auto graph = traced.first->graph;
  graph->insertInput(0, "self")->setType(module.type());
  module.type()->addMethod(unit->create_function(
      c10::QualifiedName("__torch__.Baked.forward"), graph));
  const auto tree = read_module_tree(module);
  ASSERT_TRUE(tree.ok()) << tree.status();
  const std::vector<ModuleTensor>& tensors = tree->tree.nodes[0].tensors;
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].name, "forward#0");
  EXPECT_EQ(tensors[0].resident_reason, "is a constant of forward");
  EXPECT_EQ(tensors[0].storage_bytes, 20);
}

struct Packed : torch::CustomClassHolder {};

TEST(ModuleTreeReader, NamesObjectsOfCustomClassesOnceWithTheirPaths) {
  static const auto kRegistered =
      torch::class_<Packed>("ferry_test", "Packed").def(torch::init<>());
  (void)kRegistered;
  const auto type = c10::getCustomClassType<c10::intrusive_ptr<Packed>>();
  const c10::IValue object(c10::make_intrusive<Packed>());
  const c10::IValue other(c10::make_intrusive<Packed>());
  Module block("Block");
  block.register_attribute("packed", type, object);
  Module dit("Dit");
  dit.register_module("block", block);
  dit.register_attribute("again", type, object);
  dit.register_attribute("packed", type, other);
  Module root("Root");
  root.register_module("dit", dit);
  root.register_module("twin", dit);
  const auto tree = read_module_tree(root);
  ASSERT_TRUE(tree.ok()) << tree.status();
  EXPECT_EQ(tree->opaque,
            (std::vector<std::string>{"dit.block.packed", "dit.packed"}));
}

TEST(ModuleTreeReader, NamesDeclarationsOfAnotherType) {
  Module root("Root");
  root.register_attribute("_vae_modules", c10::StringType::get(), "vae");
  Module plan("Plan");
  add_names(plan, "block_attrs", {"blocks"});
  root.register_module("_offload_plan", plan);
  Module vae("Vae");
  vae.register_attribute("_on_demand_lifecycle", c10::IntType::get(), 1);
  vae.register_attribute("_layerwise_offload_blocks_attr", c10::IntType::get(),
                         1);
  root.register_module("vae", vae);
  const absl::Status status = read_module_tree(root).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "vae._layerwise_offload_blocks_attr: must be str or List[str]; "
            "vae._on_demand_lifecycle: must be bool; "
            "_vae_modules: must be List[str]; "
            "_offload_plan.block_attrs: must be Dict[str, List[str]]");
}

TEST(ModuleTreeReader, ReadsTheWholePlan) {
  Module root("Root");
  Module plan("Plan");
  c10::Dict<std::string, std::string> types;
  types.insert("mllm", "text_encoder");
  const auto strings =
      c10::DictType::create(c10::StringType::get(), c10::StringType::get());
  plan.register_attribute("encoder_component_types", strings, types);
  plan.register_attribute("offload_submodules", strings, types);
  add_names(plan, "resident_dit_paths", {"dit"});
  add_names(plan, "encoder_dlo_weight_replication", {"mllm"});
  add_names(plan, "on_demand_component_paths", {"vae"});
  root.register_module("_offload_plan", plan);
  Module stub("Stub");
  stub.register_attribute("_is_loaded", c10::BoolType::get(), false);
  stub.register_attribute("_on_demand_lifecycle", c10::BoolType::get(), true);
  root.register_module("mllm", stub);
  const auto tree = read_module_tree(root);
  ASSERT_TRUE(tree.ok()) << tree.status();
  ASSERT_TRUE(tree->tree.plan.has_value());
  EXPECT_EQ(tree->tree.plan->encoder_component_types.at("mllm"),
            "text_encoder");
  EXPECT_EQ(tree->tree.plan->resident_dit_paths.count("dit"), 1u);
  EXPECT_EQ(tree->tree.plan->encoder_dlo_weight_replication.count("mllm"), 1u);
  EXPECT_EQ(tree->tree.plan->on_demand_component_paths.count("vae"), 1u);
  EXPECT_FALSE(tree->tree.declarations.has_value());
  EXPECT_FALSE(tree->tree.nodes[1].is_loaded);
  EXPECT_TRUE(tree->tree.nodes[1].on_demand_lifecycle);
}

}  // namespace
}  // namespace ferry
