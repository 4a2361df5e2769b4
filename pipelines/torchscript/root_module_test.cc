#include "pipelines/torchscript/root_module.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "offload/module_tree.h"
#include "offload/offloadable_module.h"
#include "pipelines/testing/tiny_root.h"
#include "pipelines/torchscript/parameters.h"
#include "pipelines/torchscript/torch_settings.h"

namespace ferry {
namespace {

using torch::jit::Module;

class RootModuleTest : public testing::Test {
 protected:
  RootModuleTest() : directory_(testing::TempDir()), scope_(1) {
    set_deterministic_mode();
    options_.attention_masks = {false};
  }

  absl::StatusOr<std::unique_ptr<RootModule>> load(const Module& root) {
    root.save((directory_ / "p.pt").string());
    return RootModule::load(directory_, "p.pt", options_);
  }

  std::string error_of(const Module& root) {
    const absl::Status status = load(root).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  const std::filesystem::path directory_;
  RootModule::Options options_;
  TorchScope scope_;
};

TEST_F(RootModuleTest, RunsTheFourMethods) {
  const auto root = load(make_tiny_root({}));
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(*(*root)->latent_shape(2, 32, 64, 1),
            (std::vector<int64_t>{2, 4, 4, 8}));
  const auto conditioning =
      (*root)->encode_prompt({at::ones({2, 16}, at::kLong)});
  ASSERT_TRUE(conditioning.ok()) << conditioning.status();
  EXPECT_EQ(conditioning->at("text").sizes(), at::IntArrayRef({2, kTinyWidth}));
  const auto output = (*root)->denoise(at::ones({2, 4, 4, 8}),
                                       at::full({2}, 800.0), *conditioning);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->sizes(), at::IntArrayRef({2, 4, 4, 8}));
  const auto pictures = (*root)->decode(*output);
  ASSERT_TRUE(pictures.ok()) << pictures.status();
  EXPECT_EQ(pictures->sizes(), at::IntArrayRef({2, 3, 32, 64}));
}

TEST_F(RootModuleTest, KnowsWhereTheWeightsAre) {
  const auto root = load(make_tiny_root({}));
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_TRUE((*root)->device().is_cpu());
  // As an offload backend moves them: the objects stay.
  OffloadableModule& module = (*root)->offloadable_module();
  for (const ModuleNode& node : module.tree().nodes) {
    for (const ModuleTensor& entry : node.tensors) {
      const at::Tensor tensor = module.tensor(entry.identity);
      tensor.unsafeGetTensorImpl()->shallow_copy_from(
          tensor.to(at::kMeta).getIntrusivePtr());
    }
  }
  EXPECT_TRUE((*root)->device().is_meta());
}

TEST_F(RootModuleTest, ShowsComponentsToOffloading) {
  TinyPipelineOptions tiny;
  tiny.traced = true;
  tiny.dits = 2;
  const auto root = load(make_tiny_root(tiny));
  ASSERT_TRUE(root.ok()) << root.status();
  const auto& components = (*root)->offloadable_module().components();
  ASSERT_EQ(components.size(), 4u);
  EXPECT_EQ(components[1].path, "transformer_2");
  EXPECT_EQ(components[1].role, ComponentRole::kDit);
  ASSERT_EQ(components[1].stacks.size(), 1u);
  EXPECT_EQ(components[1].stacks[0].blocks[1].path, "transformer_2.blocks.1");
  EXPECT_NE(components[1].stacks[0].blocks[1].hooks, nullptr);
  EXPECT_EQ(components[1].stacks[0].blocks[1].bytes,
            4 * (kTinyWidth * kTinyWidth + kTinyWidth + 1));
}

TEST_F(RootModuleTest, ReportsEveryBadMethodAtOnce) {
  TinyPipelineOptions tiny;
  tiny.short_denoise = true;
  tiny.without_method = "decode";
  options_.attention_masks = {true};
  const std::string error = error_of(make_tiny_root(tiny));
  EXPECT_TRUE(absl::StartsWith(error, "p.pt: ")) << error;
  EXPECT_TRUE(absl::StrContains(
      error,
      "method encode_prompt has another signature; expected "
      "encode_prompt(input_ids: Tensor, attention_mask: Tensor) -> "
      "Dict[str, Tensor]"))
      << error;
  EXPECT_TRUE(absl::StrContains(
      error,
      "method denoise has another signature; expected denoise(latents: "
      "Tensor, timestep: Tensor, conditioning: Dict[str, Tensor]) -> Tensor"))
      << error;
  EXPECT_TRUE(absl::StrContains(
      error,
      "method decode is missing; expected decode(latents: Tensor) -> Tensor"))
      << error;
  EXPECT_FALSE(absl::StrContains(error, "latent_shape")) << error;
  EXPECT_LT(error.size(), 1024u);
}

TEST_F(RootModuleTest, NamesAFileThatIsNoArchive) {
  std::ofstream(directory_ / "junk.pt") << std::string(4096, 'x');
  const absl::Status junk =
      RootModule::load(directory_, "junk.pt", options_).status();
  EXPECT_EQ(junk.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StartsWith(junk.message(), "junk.pt: ")) << junk;
  EXPECT_LT(junk.message().size(), 600u);
  EXPECT_EQ(junk.message().find('\n'), absl::string_view::npos);

  const absl::Status missing =
      RootModule::load(directory_, "missing.pt", options_).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StartsWith(missing.message(), "missing.pt: ")) << missing;
}

TEST_F(RootModuleTest, NamesAWrongPlan) {
  TinyPipelineOptions tiny;
  tiny.wrong_plan = true;
  EXPECT_TRUE(absl::StartsWith(error_of(make_tiny_root(tiny)),
                               "p.pt: transformer.layers: "));
}

TEST_F(RootModuleTest, ConvertsParametersAndLeavesBuffers) {
  TinyPipelineOptions tiny;
  tiny.half_weights = true;
  options_.compute_dtype = c10::kFloat;
  const auto root = load(make_tiny_root(tiny));
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ((*root)->compute_dtype(), c10::kFloat);
  const auto conditioning =
      (*root)->encode_prompt({at::ones({1, 16}, at::kLong)});
  ASSERT_TRUE(conditioning.ok()) << conditioning.status();
  EXPECT_EQ(conditioning->at("text").scalar_type(), c10::kFloat);
}

TEST_F(RootModuleTest, ARunErrorIsShortAndLeavesItUsable) {
  const auto root = load(make_tiny_root({}));
  ASSERT_TRUE(root.ok()) << root.status();
  const absl::Status status = (*root)->decode(at::ones({1, 3, 4, 4})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StartsWith(status.message(), "decode: ")) << status;
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
  EXPECT_FALSE(absl::StrContains(status.message(), "Traceback")) << status;
  EXPECT_TRUE((*root)->decode(at::ones({1, 4, 4, 4})).ok());
}

TEST(ConvertParameters, KeepsTies) {
  Module module("__torch__.Tied");
  const at::Tensor weight = at::arange(6, at::kFloat).reshape({2, 3});
  module.register_parameter("a", weight, false);
  module.register_parameter("b", weight.t(), false);
  module.register_parameter("c", at::ones({3}, at::kLong), false);
  module.register_buffer("d", at::ones({3}));
  convert_parameters(module, c10::kHalf);
  const at::Tensor a = module.attr("a").toTensor();
  const at::Tensor b = module.attr("b").toTensor();
  EXPECT_EQ(a.scalar_type(), c10::kHalf);
  EXPECT_TRUE(at::equal(a.to(at::kFloat), weight));
  EXPECT_TRUE(at::equal(b.to(at::kFloat), weight.t()));
  EXPECT_EQ(a.storage().unsafeGetStorageImpl(),
            b.storage().unsafeGetStorageImpl());
  EXPECT_EQ(module.attr("c").toTensor().scalar_type(), c10::kLong);
  EXPECT_EQ(module.attr("d").toTensor().scalar_type(), c10::kFloat);
}

TEST(CheckParameters, NothingMayBeLeftOnMeta) {
  const at::Tensor meta = at::ones({2}, at::device(c10::kMeta));
  Module module("__torch__.Meta");
  Module child("__torch__.MetaChild");
  child.register_attribute("plain", c10::TensorType::get(), meta);
  child.register_attribute(
      "list", c10::ListType::ofTensors(),
      c10::List<at::Tensor>({at::ones({1}), meta.clone()}));
  module.register_module("child", child);
  EXPECT_EQ(check_parameters(module).message(),
            "child.plain is on the meta device and has no values; child.list.1 "
            "is on the meta device and has no values");
}

TEST(CheckParameters, NamesEveryUnusableTensor) {
  Module module("__torch__.Odd");
  module.register_parameter("sparse", at::eye(3).to_sparse(), false);
  module.register_buffer("meta", at::ones({2}, at::device(c10::kMeta)));
  module.register_parameter(
      "quantized", at::quantize_per_tensor(at::ones({2}), 1, 0, c10::kQInt8),
      false);
  const absl::Status status = check_parameters(module);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "sparse is not a dense tensor; quantized is quantized; meta is on "
            "the meta device and has no values");
}

}  // namespace
}  // namespace ferry
