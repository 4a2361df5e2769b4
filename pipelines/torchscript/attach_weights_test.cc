#include "pipelines/torchscript/attach_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "offload/mapped_storage.h"
#include "offload/module_tree.h"
#include "offload/offloadable_module.h"
#include "pipelines/safetensors/mapped_tensor.h"
#include "pipelines/safetensors/testing/safetensors_writer.h"
#include "pipelines/testing/tiny_pipeline.h"
#include "pipelines/testing/tiny_pipeline_options.h"
#include "pipelines/torchscript/parameters.h"
#include "pipelines/torchscript/root_module.h"
#include "pipelines/torchscript/torch_settings.h"
#include "pipelines/torchscript/weight_sources.h"

namespace ferry {
namespace {

using testing::HasSubstr;
using torch::jit::Module;

at::Tensor placeholder(at::IntArrayRef shape,
                       c10::ScalarType type = at::kFloat) {
  return at::zeros({1}, type).expand(shape);
}

// A root whose module "dit" has the placeholders a [2, 3] and b [4], the real
// parameter c [1], and the buffer d [2].
class AttachWeightsTest : public testing::Test {
 protected:
  AttachWeightsTest()
      : directory_(std::filesystem::path(testing::TempDir()) / "attach"),
        scope_(1) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    dit_.register_parameter("a", placeholder({2, 3}), false);
    dit_.register_parameter("b", placeholder({4}), false);
    dit_.register_parameter("c", at::full({1}, 3.0), false);
    dit_.register_buffer("d", at::full({2}, 4.0));
    root_.register_module("dit", dit_);
    sources_.components = {{"dit", "m.safetensors"}};
    sources_.alignment = 1;
    a_ = at::arange(6, at::kFloat).reshape({2, 3});
    b_ = at::arange(4, at::kFloat) - 1;
  }

  struct Named {
    std::string name;
    at::Tensor tensor;
  };

  void write(const std::string& file, const std::vector<Named>& tensors,
             int odd_bytes = 0) {
    std::vector<TensorToWrite> list;
    for (const Named& item : tensors) {
      list.push_back({item.name,
                      safetensors_name(item.tensor.scalar_type()),
                      item.tensor.sizes().vec(),
                      {static_cast<const char*>(item.tensor.const_data_ptr()),
                       item.tensor.nbytes()}});
    }
    ASSERT_TRUE(write_safetensors(directory_ / file, list, odd_bytes).ok());
  }

  absl::Status attach() {
    return attach_weights(directory_, sources_, compute_dtype_, "p.pt", root_);
  }

  std::string error_of() {
    const absl::Status status = attach();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    // Nothing has changed.
    EXPECT_TRUE(is_placeholder(dit_.attr("a").toTensor()));
    EXPECT_TRUE(is_placeholder(dit_.attr("b").toTensor()));
    return std::string(status.message());
  }

  at::Tensor value(const std::string& name) {
    return dit_.attr(name).toTensor();
  }

  const std::filesystem::path directory_;
  TorchScope scope_;
  Module root_{"__torch__.Root"};
  Module dit_{"__torch__.Dit"};
  WeightSources sources_;
  std::optional<c10::ScalarType> compute_dtype_;
  at::Tensor a_;
  at::Tensor b_;
};

TEST_F(AttachWeightsTest, PlaceholdersSeeTheFile) {
  write("m.safetensors", {{"a", a_}, {"b", b_}});
  ASSERT_EQ(attach(), absl::OkStatus());
  EXPECT_TRUE(at::equal(value("a"), a_));
  EXPECT_TRUE(at::equal(value("b"), b_));
  EXPECT_EQ(value("c").item<float>(), 3);
  EXPECT_EQ(value("d")[0].item<float>(), 4);
  for (const char* name : {"a", "b"}) {
    EXPECT_TRUE(is_mapped(*value(name).storage().unsafeGetStorageImpl()));
    EXPECT_FALSE(value(name).requires_grad());
  }
  // Blocks may own one of them without the other.
  EXPECT_FALSE(value("a").is_alias_of(value("b")));
}

TEST_F(AttachWeightsTest, WhatHasOneElementIsRealUnlessTheFileHasIt) {
  write("m.safetensors", {{"a", a_}, {"b", b_}, {"c", at::full({1}, 8.0f)}});
  ASSERT_EQ(attach(), absl::OkStatus());
  EXPECT_EQ(value("c").item<float>(), 8);
}

TEST_F(AttachWeightsTest, ABufferKeepsItsValues) {
  write("m.safetensors", {{"a", a_}, {"b", b_}, {"d", at::zeros({2})}});
  ASSERT_EQ(attach(), absl::OkStatus());
  EXPECT_EQ(value("d")[0].item<float>(), 4);
  write("m.safetensors", {{"a", a_}, {"b", b_}, {"d", at::zeros({3})}});
  EXPECT_EQ(attach().message(),
            "m.safetensors: tensor \"a\": p.pt holds the values of dit.a; it "
            "must be a placeholder, or not be in the file; m.safetensors: "
            "tensor \"b\": p.pt holds the values of dit.b; it must be a "
            "placeholder, or not be in the file; m.safetensors: tensor \"d\": "
            "has the shape [3], and the buffer of p.pt has [2]");
}

TEST_F(AttachWeightsTest, WhatKernelsWouldAddInAnotherOrderIsCopied) {
  sources_.alignment = 64;
  write("m.safetensors", {{"a", a_}, {"b", b_}});
  ASSERT_EQ(attach(), absl::OkStatus());
  EXPECT_TRUE(is_mapped(*value("a").storage().unsafeGetStorageImpl()));
  // 24 bytes after it.
  EXPECT_FALSE(is_mapped(*value("b").storage().unsafeGetStorageImpl()));
  EXPECT_TRUE(at::equal(value("b"), b_));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(value("b").const_data_ptr()) % 64, 0u);
}

TEST_F(AttachWeightsTest, WhatIsNotAlignedIsCopied) {
  write("m.safetensors", {{"a", a_}, {"b", b_}}, 1);
  ASSERT_EQ(attach(), absl::OkStatus());
  EXPECT_TRUE(at::equal(value("a"), a_));
  EXPECT_FALSE(is_mapped(*value("a").storage().unsafeGetStorageImpl()));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(value("a").const_data_ptr()) % 4, 0u);
}

TEST_F(AttachWeightsTest, EveryTypeKeepsItsBytes) {
  const std::vector<c10::ScalarType> types = {
      c10::kBool,   c10::kByte,          c10::kChar,        c10::kUInt16,
      c10::kShort,  c10::kHalf,          c10::kBFloat16,    c10::kUInt32,
      c10::kInt,    c10::kFloat,         c10::kUInt64,      c10::kLong,
      c10::kDouble, c10::kFloat8_e4m3fn, c10::kFloat8_e5m2, c10::kComplexFloat};
  Module root("__torch__.Types");
  std::vector<Named> tensors;
  for (size_t i = 0; i < types.size(); ++i) {
    const std::string name = absl::StrCat("p", i);
    root.register_attribute(name, c10::TensorType::get(),
                            placeholder({3}, types[i]), /*is_param=*/true);
    const at::Tensor bytes =
        at::arange(1, 3 * static_cast<int64_t>(c10::elementSize(types[i])) + 1,
                   at::kByte)
            .remainder_(2);
    tensors.push_back({name, bytes.view(types[i])});
  }
  write("m.safetensors", tensors);
  sources_.components = {{"", "m.safetensors"}};
  ASSERT_EQ(attach_weights(directory_, sources_, {}, "p.pt", root),
            absl::OkStatus());
  for (const Named& item : tensors) {
    const at::Tensor value = root.attr(item.name).toTensor();
    EXPECT_EQ(value.scalar_type(), item.tensor.scalar_type());
    EXPECT_TRUE(at::equal(value.view(at::kByte), item.tensor.view(at::kByte)))
        << item.name;
  }
}

TEST_F(AttachWeightsTest, NamesAllThatIsWrongAtOnce) {
  write("m.safetensors", {{"a", a_.t().contiguous()},
                          {"surplus", b_},
                          {"sub.tensor", b_},
                          {"c", at::ones({1}, at::kInt)}});
  EXPECT_EQ(
      error_of(),
      "m.safetensors: tensor \"a\": is F32 [3, 2], and p.pt expects F32 [2, 3] "
      "for dit.a; m.safetensors: tensor \"surplus\": p.pt has no parameter "
      "\"dit.surplus\"; m.safetensors: tensor \"sub.tensor\": p.pt has no "
      "parameter \"dit.sub.tensor\"; m.safetensors: tensor \"c\": is I32 [1], "
      "and p.pt expects F32 [1] for dit.c; p.pt: parameter dit.b has no "
      "values, and no file of the manifest's weights holds it");
}

TEST_F(AttachWeightsTest, NamesATypeThatIsWrong) {
  write("m.safetensors", {{"a", a_.to(at::kHalf)}, {"b", b_.to(at::kLong)}});
  EXPECT_EQ(error_of(),
            "m.safetensors: tensor \"a\": is F16 [2, 3], and p.pt expects F32 "
            "[2, 3] for dit.a; m.safetensors: tensor \"b\": is I64 [4], and "
            "p.pt expects F32 [4] for dit.b");
  compute_dtype_ = at::kFloat;
  EXPECT_EQ(error_of(),
            "m.safetensors: tensor \"b\": is I64 [4], and p.pt expects F32 [4] "
            "for dit.b");
}

TEST_F(AttachWeightsTest, AComputeTypeConvertsOnce) {
  compute_dtype_ = at::kFloat;
  write("m.safetensors", {{"a", a_.to(at::kHalf)}, {"b", b_}});
  ASSERT_EQ(attach(), absl::OkStatus());
  EXPECT_EQ(value("a").scalar_type(), at::kHalf);
  convert_parameters(root_, compute_dtype_);
  EXPECT_TRUE(at::equal(value("a"), a_));
  EXPECT_FALSE(is_mapped(*value("a").storage().unsafeGetStorageImpl()));
  // There is nothing to convert.
  EXPECT_TRUE(is_mapped(*value("b").storage().unsafeGetStorageImpl()));
}

TEST_F(AttachWeightsTest, NamesAMissingFileOrModule) {
  sources_.components = {{"dit", "none.safetensors"}, {"vae", "v.safetensors"}};
  write("v.safetensors", {{"a", a_}});
  EXPECT_EQ(error_of(),
            "none.safetensors: cannot be opened: No such file or directory; "
            "v.safetensors: p.pt has no module \"vae\" for it");
  sources_.components = {{"dit.a", "v.safetensors"}};
  EXPECT_EQ(error_of(), "v.safetensors: p.pt has no module \"dit.a\" for it");
  sources_.components.clear();
  EXPECT_EQ(error_of(),
            "p.pt: parameter dit.a has no values, and the manifest names no "
            "weights; p.pt: parameter dit.b has no values, and the manifest "
            "names no weights");
}

TEST_F(AttachWeightsTest, TwoFilesMayHoldATensorIfItIsTheSame) {
  write("m.safetensors", {{"a", a_}, {"b", b_}});
  write("n.safetensors", {{"dit.a", a_ + 1}});
  sources_.components.push_back({"", "n.safetensors"});
  EXPECT_EQ(error_of(),
            "n.safetensors: tensor \"dit.a\": differs from tensor \"a\" of "
            "m.safetensors, which is the same parameter");
  write("n.safetensors", {{"dit.a", a_}});
  EXPECT_EQ(attach(), absl::OkStatus());
}

TEST_F(AttachWeightsTest, TiedParametersAreOneTensor) {
  dit_.register_parameter("e", placeholder({2, 3}), false);
  write("m.safetensors", {{"e", a_}, {"b", b_}});
  EXPECT_THAT(error_of(), HasSubstr("parameter dit.a has no values"));
  sources_.ties = {{"dit.a", "dit.e"}};
  ASSERT_EQ(attach(), absl::OkStatus());
  EXPECT_TRUE(at::equal(value("a"), a_));
  EXPECT_TRUE(value("a").is_same(value("e")));
  convert_parameters(root_, at::kHalf);
  EXPECT_TRUE(value("a").is_alias_of(value("e")));
}

TEST_F(AttachWeightsTest, TheFilesMayHoldAllOfATiedSet) {
  dit_.register_parameter("e", placeholder({2, 3}), false);
  sources_.ties = {{"dit.a", "dit.e"}};
  write("m.safetensors", {{"a", a_}, {"e", a_ + 1}, {"b", b_}});
  EXPECT_EQ(error_of(),
            "m.safetensors: tensor \"e\": differs from tensor \"a\" of "
            "m.safetensors, to which it is tied");
  write("m.safetensors", {{"a", a_}, {"e", a_}, {"b", b_}});
  ASSERT_EQ(attach(), absl::OkStatus());
  EXPECT_TRUE(value("a").is_same(value("e")));
}

TEST_F(AttachWeightsTest, NamesWhatCannotBeTied) {
  write("m.safetensors", {{"a", a_}, {"b", b_}});
  sources_.ties = {{"dit.a", "dit.x"}, {"dit.d", "dit.a"}};
  EXPECT_EQ(error_of(),
            "tied_parameters: p.pt has no parameter \"dit.x\"; "
            "tied_parameters: p.pt has no parameter \"dit.d\"");
  write("m.safetensors", {{"a", a_}});
  sources_.ties = {{"dit.a", "dit.b"}};
  EXPECT_EQ(error_of(),
            "m.safetensors: tensor \"a\": is F32 [2, 3], and p.pt expects F32 "
            "[4] for dit.b");
}

TEST_F(AttachWeightsTest, AParameterOnMetaIsAPlaceholderToo) {
  dit_.setattr("a", at::empty({2, 3}, at::device(at::kMeta)));
  write("m.safetensors", {{"a", a_}, {"b", b_}});
  ASSERT_EQ(attach(), absl::OkStatus());
  EXPECT_TRUE(at::equal(value("a"), a_));
}

TEST_F(AttachWeightsTest, ArchivesKeepPlaceholders) {
  TinyPipelineOptions tiny;
  tiny.code_only = true;
  ASSERT_TRUE(write_tiny_pipeline(directory_, tiny).ok());
  RootModule::Options options;
  options.attention_masks = {false};
  const absl::Status status =
      RootModule::load(directory_, "pipeline.pt", options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("pipeline.pt: parameter transformer.blocks.0.weight "
                        "has no values, and the manifest names no weights"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(" more"));
  // A meta buffer or attribute of an archive is named.
  Module root("__torch__.Meta");
  root.register_buffer("lost", at::ones({2}, at::device(c10::kMeta)));
  root.save((directory_ / "meta.pt").string());
  const absl::Status meta =
      RootModule::load(directory_, "meta.pt", options).status();
  EXPECT_EQ(meta.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(meta.message()),
              HasSubstr("lost is on the meta device and has no values"));
}

TEST_F(AttachWeightsTest, WrittenParametersAreCopies) {
  TinyPipelineOptions tiny;
  tiny.code_only = true;
  tiny.writes_parameter = true;
  ASSERT_TRUE(write_tiny_pipeline(directory_, tiny).ok());
  RootModule::Options options;
  options.attention_masks = {false};
  for (const char* part : {"text_encoder/model", "vae/diffusion_pytorch_model",
                           "transformer/diffusion_pytorch_model"}) {
    const std::string file = absl::StrCat(part, ".safetensors");
    options.weights.components.push_back(
        {file.substr(0, file.find('/')), file});
  }
  const auto root = RootModule::load(directory_, "pipeline.pt", options);
  ASSERT_TRUE(root.ok()) << root.status();
  ASSERT_EQ((*root)->begin_generation(1), absl::OkStatus());
  const OffloadableModule& module = (*root)->offloadable_module();
  int copied = 0;
  int mapped = 0;
  for (const ModuleNode& node : module.tree().nodes) {
    for (const ModuleTensor& entry : node.tensors) {
      if (!entry.is_parameter) continue;
      const bool is_file = is_mapped(
          *module.tensor(entry.identity).storage().unsafeGetStorageImpl());
      EXPECT_NE(is_file, entry.name == "passes") << entry.name;
      ++(is_file ? mapped : copied);
    }
  }
  EXPECT_EQ(copied, 1);
  EXPECT_GT(mapped, 10);
}

}  // namespace
}  // namespace ferry
