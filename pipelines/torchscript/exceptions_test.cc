// What modules throw, and what LibTorch throws because of them: every kind of
// exception ends a load or a call as a status, which names the file or the
// method.

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pipelines/testing/tiny_root.h"
#include "pipelines/torchscript/root_module.h"
#include "pipelines/torchscript/torch_settings.h"

namespace ferry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using torch::jit::Graph;
using torch::jit::Module;
using torch::jit::Node;
using torch::jit::Value;

// What C++ code below an operator may throw; the first four are what there is
// of it in LibTorch.
enum class CppKind { kAlloc, kDeviceMemory, kTorch, kSystem, kLength, kNumber };

void throw_kind(torch::jit::Stack& stack) {
  switch (static_cast<CppKind>(torch::jit::pop(stack).toInt())) {
    case CppKind::kAlloc:
      throw std::bad_alloc();
    case CppKind::kDeviceMemory:
      TORCH_CHECK_WITH(OutOfMemoryError, false, "XPU out of memory");
    case CppKind::kTorch:
      TORCH_CHECK(false, "an odd operator");
    case CppKind::kSystem:
      throw std::system_error(EAGAIN, std::generic_category());
    case CppKind::kLength:
      throw std::length_error("vector::reserve");
    case CppKind::kNumber:
      throw 42;
  }
}

const torch::jit::RegisterOperators kOperators(
    {torch::jit::Operator("ferry_test::throw_kind(int kind) -> ()", throw_kind,
                          c10::AliasAnalysisKind::CONSERVATIVE)});

// Puts a statement at the top of a method.
void begin_with(const Module& module, const std::string& method,
                c10::Symbol kind, const std::vector<c10::IValue>& arguments) {
  Graph& graph = *module.get_method(method).graph();
  const torch::jit::WithInsertPoint here(*graph.nodes().begin());
  std::vector<Value*> inputs;
  for (const c10::IValue& argument : arguments) {
    inputs.push_back(graph.insertConstant(argument));
  }
  graph.insertNode(graph.create(kind, inputs, 0));
}

// raise SomeClass(text)
void raise_class(const Module& module, const std::string& method,
                 const std::string& text, const std::string& class_name) {
  begin_with(module, method, c10::prim::RaiseException, {text, class_name});
}

void throw_cpp(const Module& module, const std::string& method, CppKind kind) {
  begin_with(module, method,
             c10::Symbol::fromQualString("ferry_test::throw_kind"),
             {static_cast<int64_t>(kind)});
}

// A way to fail, put into a method of a module.
struct Failure {
  std::function<void(const Module& module, const std::string& method)> add;
  absl::StatusCode code;
  std::string text;
};

std::vector<Failure> failures() {
  const auto cpp = [](CppKind kind) {
    return [kind](const Module& module, const std::string& method) {
      throw_cpp(module, method, kind);
    };
  };
  const auto raise = [](const std::string& text, const std::string& name) {
    return [=](const Module& module, const std::string& method) {
      raise_class(module, method, text, name);
    };
  };
  const auto internal = absl::StatusCode::kInternal;
  const auto memory = absl::StatusCode::kResourceExhausted;
  return {
      {raise("state: odd", "__main__.MyError"), internal,
       "__main__.MyError: state: odd"},
      {raise("", "package.module.Refused"), internal, "package.module.Refused"},
      {raise("'k'\nand more", "builtins.KeyError"), internal,
       "builtins.KeyError: 'k'"},
      {cpp(CppKind::kAlloc), memory, "out of device memory"},
      {cpp(CppKind::kDeviceMemory), memory, "out of device memory"},
      {cpp(CppKind::kTorch), internal, "an odd operator"},
      {cpp(CppKind::kSystem), internal, "temporarily unavailable"},
      {cpp(CppKind::kLength), internal, "vector::reserve"},
      {cpp(CppKind::kNumber), internal, "an exception of an unknown type"},
  };
}

class ExceptionsTest : public testing::Test {
 protected:
  ExceptionsTest() : directory_(testing::TempDir()), scope_(1) {
    set_deterministic_mode();
    options_.attention_masks = {false};
  }

  absl::StatusOr<std::unique_ptr<RootModule>> load(const Module& root) {
    root.save((directory_ / "e.pt").string());
    return RootModule::load(directory_, "e.pt", options_);
  }

  static absl::Status call(RootModule& root, const std::string& method) {
    const at::Tensor latents = at::ones({1, 4, 4, 4});
    if (method == "encode_prompt") {
      return root.encode_prompt({at::ones({1, 16}, at::kLong)}).status();
    }
    if (method == "denoise") {
      return root
          .denoise(latents, at::full({1}, 800.0),
                   {{"text", at::ones({1, kTinyWidth})}})
          .status();
    }
    if (method == "decode") return root.decode(latents).status();
    return root.latent_shape(1, 32, 32, 1).status();
  }

  const std::filesystem::path directory_;
  RootModule::Options options_;
  TorchScope scope_;
};

TEST_F(ExceptionsTest, WhatAMethodThrowsIsItsError) {
  for (const char* method :
       {"encode_prompt", "denoise", "decode", "latent_shape"}) {
    for (const Failure& failure : failures()) {
      const Module module = make_tiny_root({});
      failure.add(module, method);
      const auto root = load(module);
      ASSERT_TRUE(root.ok()) << root.status();
      const absl::Status status = call(**root, method);
      EXPECT_EQ(status.code(), failure.code) << status;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(StartsWith(absl::StrCat(method, ": ")),
                        HasSubstr(failure.text)));
    }
  }
}

// Between the hooks of a component: after it, the others run as before.
TEST_F(ExceptionsTest, WhatAComponentThrowsIsItsMethodsErrorAndHooksAreReset) {
  for (const Failure& failure : failures()) {
    const Module module = make_tiny_root({});
    failure.add(module.attr("vae").toModule(), "forward");
    const auto root = load(module);
    ASSERT_TRUE(root.ok()) << root.status();
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(call(**root, "encode_prompt").ok());
      EXPECT_TRUE(call(**root, "denoise").ok());
      const absl::Status status = call(**root, "decode");
      EXPECT_EQ(status.code(), failure.code) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(failure.text));
    }
  }
}

constexpr char kGetState[] = R"(
def __getstate__(self) -> bool:
    return True
)";

TEST_F(ExceptionsTest, AnArchiveWhoseObjectsRefuseTheirStateIsNamed) {
  for (const Failure& failure : failures()) {
    const Module module = make_tiny_root({});
    Module vae = module.attr("vae").toModule();
    vae.define(absl::StrCat(kGetState, R"(
def __setstate__(self, state: bool) -> None:
    number = 1 if state else 2
)"));
    failure.add(vae, "__setstate__");
    const absl::Status status = load(module).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()),
                AllOf(StartsWith("e.pt: "), HasSubstr(failure.text)));
  }
}

// Attributes that __setstate__ forgets hold nothing: whoever reads them throws.
TEST_F(ExceptionsTest, AnArchiveWhoseAttributesAreUnsetIsNamed) {
  for (const char* name : {"", "vae", "text_encoder", "transformer"}) {
    SCOPED_TRACE(name);
    Module module = make_tiny_root({});
    Module part = *name == '\0' ? module : module.attr(name).toModule();
    part.define(absl::StrCat(kGetState, R"(
def __setstate__(self, state: bool) -> None:
    number = 1 if state else 2
)"));
    const auto root = load(module);
    if (!root.ok()) {
      EXPECT_THAT(std::string(root.status().message()), StartsWith("e.pt: "));
      continue;
    }
    // What nothing at load reads is missed by the method that does.
    int failed = 0;
    for (const char* method : {"encode_prompt", "denoise", "decode"}) {
      failed += call(**root, method).ok() ? 0 : 1;
    }
    EXPECT_GT(failed, 0);
  }
}

TEST_F(ExceptionsTest, AnAbsurdSizeIsALackOfMemory) {
  for (const char* expression :
       {"torch.empty([1 << 60])", "torch.zeros([1 << 60])",
        "torch.ones([1 << 50]) + latents.sum()"}) {
    TinyPipelineOptions tiny;
    tiny.method_sources["decode"] = absl::StrCat(
        "def decode(self, latents):\n    return ", expression, "\n");
    const auto root = load(make_tiny_root(tiny));
    ASSERT_TRUE(root.ok()) << root.status();
    const absl::Status status = call(**root, "decode");
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_TRUE(call(**root, "encode_prompt").ok());
  }
}

// An archive is text that anybody can write: the operators that are put in at
// load end the process when they are called out of their order.
TEST_F(ExceptionsTest, AnArchiveThatCallsHooksItselfIsRefused) {
  for (const char* name : {"", "vae", "transformer"}) {
    for (const char* symbol : {"ferry::pre_forward", "ferry::post_forward"}) {
      const Module module = make_tiny_root({});
      const Module part = *name == '\0' ? module : module.attr(name).toModule();
      Graph& graph =
          *part.get_method(*name == '\0' ? "decode" : "forward").graph();
      const torch::jit::WithInsertPoint here(*graph.nodes().begin());
      graph
          .insertNode(graph.create(c10::Symbol::fromQualString(symbol),
                                   {graph.inputs()[1], graph.inputs()[0]}, 1))
          ->output()
          ->setType(graph.inputs()[1]->type());
      const absl::Status status = load(module).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()),
                  AllOf(StartsWith("e.pt: __torch__.tiny."),
                        HasSubstr("which no archive may")));
    }
  }
}

}  // namespace
}  // namespace ferry
