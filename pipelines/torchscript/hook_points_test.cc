#include "pipelines/torchscript/hook_points.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "offload/forward_output.h"
#include "offload/hook_registry.h"
#include "offload/model_hook.h"
#include "offload/torch_status.h"
#include "pipelines/testing/tiny_root.h"
#include "pipelines/torchscript/torch_settings.h"

namespace ferry {
namespace {

using torch::jit::Module;
using Log = std::vector<std::string>;

// Writes down its calls; holds the weights of its module only in between.
class StreamingHook : public ModelHook {
 public:
  StreamingHook(const HookTarget& target, Log* log)
      : path_(target.path), log_(log) {
    for (const auto& tensor : target.module.parameters(false)) {
      tensors_.push_back(tensor);
      home_.push_back(tensor.clone());
    }
    clear();
  }

  const std::string& name() const override { return name_; }
  absl::Status pre_forward() override {
    log_->push_back(path_ + " pre");
    for (size_t i = 0; i < home_.size(); ++i) tensors_[i].copy_(home_[i]);
    return absl::OkStatus();
  }
  absl::Status post_forward(ForwardOutput& /*output*/) override {
    log_->push_back(path_ + " post");
    clear();
    return absl::OkStatus();
  }

 private:
  void clear() {
    for (at::Tensor& tensor : tensors_) {
      tensor.fill_(std::numeric_limits<float>::quiet_NaN());
    }
  }

  const std::string name_ = "streaming";
  const std::string path_;
  Log* const log_;
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> home_;
};

// Fails before or after the module.
class FailingHook : public ModelHook {
 public:
  explicit FailingHook(bool before) : before_(before) {}
  const std::string& name() const override { return name_; }
  absl::Status pre_forward() override { return fail(before_); }
  absl::Status post_forward(ForwardOutput& /*output*/) override {
    return fail(!before_);
  }

 private:
  static absl::Status fail(bool now) {
    return now ? absl::DataLossError("the hook says no") : absl::OkStatus();
  }
  const std::string name_ = "failing";
  const bool before_;
};

// Installs another hook in the midst of a pass.
class MeddlingHook : public ModelHook {
 public:
  MeddlingHook(HookRegistry* other, absl::Status* result)
      : other_(other), result_(result) {}
  const std::string& name() const override { return name_; }
  absl::Status pre_forward() override {
    *result_ = other_->add(std::make_unique<FailingHook>(false));
    return absl::OkStatus();
  }
  absl::Status post_forward(ForwardOutput& /*output*/) override {
    return absl::OkStatus();
  }

 private:
  const std::string name_ = "meddling";
  HookRegistry* const other_;
  absl::Status* const result_;
};

// A DiT with hook points in its root and blocks.
struct Instrumented {
  explicit Instrumented(const TinyPipelineOptions& options)
      : root(make_tiny_root(options)) {
    const Module dit = root.attr("transformer").toModule();
    add("transformer", dit);
    for (const auto& child : dit.attr("blocks").toModule().named_children()) {
      add(absl::StrCat("transformer.blocks.", child.name), child.value);
    }
  }

  void add(const std::string& path, const Module& module) {
    registries.push_back(std::make_unique<HookRegistry>(path));
    targets.push_back({path, module, registries.back().get()});
  }

  absl::Status insert() {
    auto inserted = HookPoints::insert(targets);
    if (inserted.ok()) points = *std::move(inserted);
    return inserted.status();
  }

  Module root;
  std::vector<std::unique_ptr<HookRegistry>> registries;
  std::vector<HookTarget> targets;
  std::unique_ptr<HookPoints> points;
};

at::Tensor run_dit(const Module& root) {
  return root.attr("transformer")
      .toModule()
      .get_method("forward")({at::arange(32.0).reshape({2, 4, 2, 2}).div(7),
                              at::full({2}, 300.0),
                              at::full({2, kTinyWidth}, 0.25)})
      .toTensor();
}

enum class Executor { kPlain, kProfiling, kLegacy };

class HookPointsTest
    : public testing::TestWithParam<std::tuple<bool, Executor>> {
 protected:
  HookPointsTest() : scope_(1) {
    set_deterministic_mode();
    const Executor executor = std::get<1>(GetParam());
    torch::jit::getExecutorMode() = executor != Executor::kLegacy;
    torch::jit::getProfilingMode() = executor == Executor::kProfiling;
    options_.traced = std::get<0>(GetParam());
  }
  ~HookPointsTest() override { set_deterministic_mode(); }

  TorchScope scope_;
  TinyPipelineOptions options_;
};

INSTANTIATE_TEST_SUITE_P(ModulesAndExecutors, HookPointsTest,
                         testing::Combine(testing::Bool(),
                                          testing::Values(Executor::kPlain,
                                                          Executor::kProfiling,
                                                          Executor::kLegacy)));

// More runs than the profiling executor needs to settle.
constexpr int kRuns = 5;

TEST_P(HookPointsTest, WithoutHooksNothingChanges) {
  const Module plain = make_tiny_root(options_);
  Instrumented hooked(options_);
  ASSERT_TRUE(hooked.insert().ok());
  for (int run = 0; run < kRuns; ++run) {
    EXPECT_TRUE(at::equal(run_dit(hooked.root), run_dit(plain))) << run;
  }
}

TEST_P(HookPointsTest, WeightsAreUsedBetweenTheHooksOnly) {
  const at::Tensor expected = run_dit(make_tiny_root(options_));
  Instrumented hooked(options_);
  ASSERT_TRUE(hooked.insert().ok());
  Log log;
  for (const HookTarget& target : hooked.targets) {
    ASSERT_TRUE(
        target.hooks->add(std::make_unique<StreamingHook>(target, &log)).ok());
  }
  const Log one_pass = {"transformer pre",           "transformer.blocks.0 pre",
                        "transformer.blocks.0 post", "transformer.blocks.1 pre",
                        "transformer.blocks.1 post", "transformer.blocks.2 pre",
                        "transformer.blocks.2 post", "transformer post"};
  for (int run = 0; run < kRuns; ++run) {
    log.clear();
    EXPECT_TRUE(at::equal(run_dit(hooked.root), expected)) << run;
    EXPECT_EQ(log, one_pass) << run;
  }
}

TEST_P(HookPointsTest, EqualCallsAreNotMerged) {
  Instrumented hooked(options_);
  hooked.root.define(R"(
def twice(self, x):
    b = getattr(self.transformer.blocks, "0")
    return b.forward(x, x) + b.forward(x, x)
)");
  ASSERT_TRUE(hooked.insert().ok());
  Log log;
  const HookTarget& block = hooked.targets[1];
  ASSERT_TRUE(
      block.hooks->add(std::make_unique<StreamingHook>(block, &log)).ok());
  for (int run = 0; run < kRuns; ++run) {
    log.clear();
    hooked.root.get_method("twice")({at::ones({1, 2, kTinyWidth})});
    EXPECT_EQ(log.size(), 4u) << run;
  }
}

TEST_P(HookPointsTest, AHooksErrorComesThroughAsItIs) {
  for (const bool before : {true, false}) {
    Instrumented hooked(options_);
    const at::Tensor expected = run_dit(make_tiny_root(options_));
    ASSERT_TRUE(hooked.insert().ok());
    HookRegistry* const hooks = hooked.targets[2].hooks;
    ASSERT_TRUE(hooks->add(std::make_unique<FailingHook>(before)).ok());
    const absl::Status status =
        call_torch("denoise", [&] { run_dit(hooked.root); });
    EXPECT_EQ(status, absl::DataLossError("the hook says no"));
    for (const auto& registry : hooked.registries) registry->reset_state();
    ASSERT_TRUE(hooks->remove("failing").ok());
    EXPECT_TRUE(at::equal(run_dit(hooked.root), expected));
  }
}

TEST_P(HookPointsTest, AModuleWithoutHooksGetsNoneWhileItRuns) {
  Instrumented hooked(options_);
  ASSERT_TRUE(hooked.insert().ok());
  HookRegistry* const dit = hooked.targets[0].hooks;
  absl::Status result;
  ASSERT_TRUE(hooked.targets[1]
                  .hooks->add(std::make_unique<MeddlingHook>(dit, &result))
                  .ok());
  run_dit(hooked.root);
  EXPECT_EQ(result.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(dit->empty());
  // It is idle again.
  EXPECT_TRUE(dit->add(std::make_unique<FailingHook>(true)).ok());
}

TEST_P(HookPointsTest, EveryMethodHasThem) {
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  Module block = make_tiny_block(unit, options_.traced);
  block.define("def nothing(self, x):\n    pass\n");
  block.define(R"(
def early(self, x):
    if bool(x.sum() > 0):
        return x
    for i in range(3):
        if i == 1:
            return x * i
    return -x
)");
  block.define("def constant(self) -> int:\n    return 4\n");
  block.define("def words(self, x: List[str]) -> List[str]:\n    return x\n");
  HookRegistry hooks("block");
  const HookTarget target{"block", block, &hooks};
  const auto points = HookPoints::insert({target});
  ASSERT_TRUE(points.ok()) << points.status();
  Log log;
  ASSERT_TRUE(hooks.add(std::make_unique<StreamingHook>(target, &log)).ok());
  const at::Tensor x = at::ones({1, 2, kTinyWidth});
  block.get_method(options_.traced ? "forward1" : "forward")({x, x});
  EXPECT_EQ(log.size(), 2u);
  EXPECT_TRUE(block.get_method("nothing")({x}).isNone());
  EXPECT_EQ(log.size(), 4u);
  EXPECT_EQ(block.get_method("constant")({}).toInt(), 4);
  EXPECT_EQ(log.size(), 6u);
  const c10::List<std::string> words({"a", "b"});
  EXPECT_EQ(block.get_method("words")({words}).toList().size(), 2u);
  EXPECT_EQ(log.size(), 8u);
  for (const double sign : {1.0, -1.0}) {
    EXPECT_TRUE(
        block.get_method("early")({x * sign}).toTensor().equal(x * sign));
  }
  EXPECT_EQ(log.size(), 12u);
}

// LibTorch's interpreter computes a loop where its result is used, so that the
// order of an operator's arguments counts.
TEST_P(HookPointsTest, LoopsOverBlocksKeepTheModule) {
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  Module root("__torch__.loops.Root", unit, true);
  std::vector<std::unique_ptr<HookRegistry>> registries;
  std::vector<HookTarget> targets;
  for (const std::string name : {"a", "b"}) {
    Module block("__torch__.loops.Block", unit, true);
    block.register_parameter("w", at::ones({3}), false);
    block.define("def forward(self, x):\n    return x + self.w\n");
    Module dit("__torch__.loops.Transformer", unit, true);
    dit.register_module("block", block);
    dit.define(R"(
def forward(self, x, n: int):
    for i in range(n):
        x = self.block.forward(x)
    return x * 0.5
)");
    root.register_module(name, dit);
    for (const Module& module : {dit, block}) {
      registries.push_back(std::make_unique<HookRegistry>(name));
      targets.push_back({name, module, registries.back().get()});
    }
  }
  root.define(R"(
def denoise(self, x, n: int, first: bool):
    if first:
        return self.a.forward(x, n)
    y = self.b.forward(x, n)
    for i in range(n):
        y = y * 2
    return y
)");
  const auto points = HookPoints::insert(targets);
  ASSERT_TRUE(points.ok()) << points.status();
  for (int run = 0; run < kRuns; ++run) {
    const at::Tensor x = at::zeros({3});
    EXPECT_TRUE(root.get_method("denoise")({x, 3, true})
                    .toTensor()
                    .equal(at::full({3}, 1.5)));
    EXPECT_TRUE(root.get_method("denoise")({x, 3, false})
                    .toTensor()
                    .equal(at::full({3}, 12.0)));
  }
}

TEST_P(HookPointsTest, AMethodThatRanIsRefused) {
  Instrumented hooked(options_);
  run_dit(hooked.root);
  const absl::Status status = hooked.insert();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "transformer.forward: ran before hook points were inserted");
}

TEST_P(HookPointsTest, DestroyedHookPointsDoNothing) {
  Instrumented hooked(options_);
  const at::Tensor expected = run_dit(make_tiny_root(options_));
  ASSERT_TRUE(hooked.insert().ok());
  ASSERT_TRUE(
      hooked.targets[0].hooks->add(std::make_unique<FailingHook>(true)).ok());
  hooked.points.reset();
  EXPECT_TRUE(at::equal(run_dit(hooked.root), expected));
}

TEST(HookPoints, BlocksOfOneTypeGetThemOnce) {
  Instrumented hooked({});
  ASSERT_TRUE(hooked.insert().ok());
  const auto graph = hooked.targets[1].module.get_method("forward").graph();
  int points = 0;
  for (const auto* node : graph->nodes()) {
    points += node->kind() == c10::Symbol::fromQualString("ferry::pre_forward");
  }
  EXPECT_EQ(points, 1);
}

TEST(HookPoints, AForkIsRefusedByName) {
  TinyPipelineOptions options;
  options.forking_block = true;
  Instrumented hooked(options);
  const absl::Status status = hooked.insert();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "transformer.blocks.0.forward: uses torch.jit.fork, which a "
            "component must not");
}

}  // namespace
}  // namespace ferry
