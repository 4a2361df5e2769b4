#include "pipelines/torchscript/state_uses.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipelines/torchscript/hook_points.h"

namespace ferry {
namespace {

using torch::jit::CompilationUnit;
using torch::jit::Module;

// A root with two blocks, a.w and so on, and what its methods do.
class StateUsesTest : public testing::Test {
 protected:
  StateUsesTest()
      : unit_(std::make_shared<CompilationUnit>()),
        root_("__torch__.uses.Root", unit_, true) {
    for (const std::string name : {"a", "b"}) {
      Module block("__torch__.uses.Block", unit_, true);
      Module inner("__torch__.uses.Inner", unit_, true);
      inner.register_buffer("v", at::ones({3}));
      inner.define("def forward(self, x):\n    return x + self.v\n");
      block.register_parameter("w", at::ones({3}), false);
      block.register_buffer("s", at::ones({3}));
      block.register_attribute("list", c10::ListType::ofTensors(),
                               c10::List<at::Tensor>({at::ones({3})}));
      block.register_module("inner", inner);
      blocks_.push_back({name, block});
    }
  }

  Module& block(size_t index) { return blocks_[index].module; }

  void define_root() {
    for (BoundModule& block : blocks_) {
      root_.register_module(block.path, block.module);
    }
    for (const std::string& source : sources_) root_.define(source);
  }

  StateUses uses() {
    define_root();
    return find_state_uses(root_, blocks_);
  }

  // Lets `denoise` give its result and block a to a function that does what
  // a's method does, as torch.jit.save writes a forward hook.
  void hook_block_a(const std::string& method) {
    torch::jit::Function* const function = unit_->create_function(
        "__torch__.uses.hook",
        torch::jit::toGraphFunction(block(0).type()->getMethod(method))
            .graph()
            ->copy());
    torch::jit::Graph& graph = *root_.get_method("denoise").graph();
    torch::jit::Node* const name = graph.create(c10::prim::Constant);
    name->s_(c10::attr::name, "hook")
        ->output()
        ->setType(c10::FunctionType::create(function));
    torch::jit::Node* const self = graph.createGetAttr(graph.inputs()[0], "a");
    torch::jit::Node* const call =
        graph.create(c10::prim::CallFunction,
                     {name->output(), self->output(), graph.outputs()[0]});
    for (torch::jit::Node* node : {name, self, call}) graph.appendNode(node);
    graph.return_node()->replaceInput(0, call->output());
  }

  // How the attribute at a path is used, with the reason.
  std::string use_of(const StateUses& uses, const std::string& block,
                     const std::string& name) {
    const Module module = root_.attr(block).toModule();
    const c10::IValue value = name == "v"
                                  ? module.attr("inner").toModule().attr("v")
                                  : module.attr(name);
    const at::Tensor tensor =
        value.isTensor() ? value.toTensor() : value.toTensorList().get(0);
    const auto found =
        uses.storages.find(tensor.storage().unsafeGetStorageImpl());
    if (found == uses.storages.end()) return "read";
    return absl::StrCat(
        found->second.use == StateUse::kWritten ? "written" : "shared", ": ",
        found->second.reason);
  }

  const std::shared_ptr<CompilationUnit> unit_;
  Module root_;
  std::vector<BoundModule> blocks_;
  std::vector<std::string> sources_;
};

TEST_F(StateUsesTest, ReadingInsideTheBlockIsOrdinary) {
  block(0).define(R"(
def forward(self, x):
    y = x.clone()
    y.mul_(2)
    return torch.relu_(y * self.w + self.list[0]) + self.inner.forward(self.s)
)");
  sources_ = {"def denoise(self, x):\n    return self.a.forward(x)\n"};
  const StateUses found = uses();
  EXPECT_TRUE(found.storages.empty()) << found.storages.begin()->second.reason;
  EXPECT_TRUE(found.constants.empty());
}

TEST_F(StateUsesTest, AWriteIsTracedThroughViewsCallsAndControlFlow) {
  block(0).define(R"(
def update(self, m, x):
    return m.view(3).add_(x)

def forward(self, x):
    t = self.s
    for i in range(3):
        if bool(x.sum() > 0):
            t = t[1:]
        else:
            t = t.narrow(0, 0, 1)
    t.zero_()
    self.update(self.list[0], x)
    return x * self.w
)");
  sources_ = {"def denoise(self, x):\n    return self.a.forward(x)\n"};
  const StateUses found = uses();
  EXPECT_EQ(use_of(found, "a", "s"),
            "written: written by aten::zero_ in a.forward");
  EXPECT_EQ(use_of(found, "a", "list"),
            "written: written by aten::add_ in a.update");
  EXPECT_EQ(use_of(found, "a", "w"), "read");
  EXPECT_EQ(use_of(found, "b", "s"), "read");
}

TEST_F(StateUsesTest, ASetAttributeIsWritten) {
  block(0).define(R"(
def forward(self, x):
    self.s = self.w.t() if x.dim() == 0 else self.s * 2
    return x
)");
  sources_ = {"def denoise(self, x):\n    return self.a.forward(x)\n"};
  const StateUses found = uses();
  EXPECT_EQ(use_of(found, "a", "s"),
            "written: written by prim::SetAttr in a.forward");
  // It may become the attribute's memory.
  EXPECT_EQ(use_of(found, "a", "w"),
            "written: written by prim::SetAttr in a.forward");
}

TEST_F(StateUsesTest, AReadFromOutsideIsShared) {
  block(0).define("def forward(self, x):\n    return x * self.w\n");
  block(1).define("def forward(self, x):\n    return x * self.w\n");
  sources_ = {R"(
def denoise(self, x):
    x = self.a.forward(x) + self.a.s
    return self.b.inner.forward(x)
)"};
  const StateUses found = uses();
  EXPECT_EQ(use_of(found, "a", "s"), "shared: read in denoise, outside of a");
  EXPECT_EQ(use_of(found, "b", "v"),
            "shared: read in b.inner.forward, outside of b");
  EXPECT_EQ(use_of(found, "a", "w"), "read");
  EXPECT_EQ(use_of(found, "b", "w"), "read");
}

TEST_F(StateUsesTest, WhatAContainerKeepsMayBeWrittenByOthers) {
  block(0).define(R"(
def forward(self, x, out: List[Tensor]):
    out.append(self.w[1:])
    out.append(x)
    return x + self.s
)");
  sources_ = {R"(
def denoise(self, x):
    out: List[Tensor] = []
    return self.a.forward(x, out) + out[0].sum()
)"};
  const StateUses found = uses();
  EXPECT_EQ(use_of(found, "a", "w"),
            "written: written by aten::append in a.forward");
  EXPECT_EQ(use_of(found, "a", "s"), "read");
}

TEST_F(StateUsesTest, AWriteToWhatABlockReturnsIsFound) {
  block(0).define(
      "def forward(self, x):\n    return torch.dropout(self.w, 0.5, False)\n");
  block(1).define("def forward(self, x):\n    return self.w + x\n");
  sources_ = {R"(
def denoise(self, x):
    self.b.forward(x).add_(1)
    return self.a.forward(x).add_(1)
)"};
  const StateUses found = uses();
  EXPECT_EQ(use_of(found, "a", "w"),
            "written: written by aten::add_ in denoise");
  EXPECT_EQ(use_of(found, "b", "w"), "read");
}

TEST_F(StateUsesTest, AFunctionThatGetsTheBlockRunsOutsideOfIt) {
  block(0).define(R"(
def forward(self, x):
    return x * self.w

def after(self, x):
    return x + self.s + self.inner.forward(self.forward(x))
)");
  sources_ = {"def denoise(self, x):\n    return self.a.forward(x)\n"};
  define_root();
  hook_block_a("after");
  const StateUses found = find_state_uses(root_, blocks_);
  EXPECT_EQ(use_of(found, "a", "s"), "shared: read in a.hook, outside of a");
  EXPECT_EQ(use_of(found, "a", "v"),
            "shared: read in a.inner.forward, outside of a");
  EXPECT_EQ(use_of(found, "a", "w"), "read");
}

// Operators that return a view, and whose schemas do not say so.
TEST_F(StateUsesTest, AWriteThroughASilentViewIsFound) {
  for (const std::string view :
       {"torch.einsum('i->i', self.w)", "self.w.sum_to_size([3])",
        "torch._unsafe_view(self.w, [3])", "torch.cartesian_prod([self.w])",
        "self.w.to_dense()", "torch.atleast_1d(self.w)",
        "torch.lift(self.w)"}) {
    Module block("__torch__.uses.View", unit_, true);
    block.register_parameter("w", at::ones({3}), false);
    block.define(absl::StrCat("def forward(self, x):\n    y = ", view,
                              "\n    y.mul_(2)\n    return x + y\n"));
    Module root("__torch__.uses.ViewRoot", unit_, true);
    root.register_module("a", block);
    root.define("def denoise(self, x):\n    return self.a.forward(x)\n");
    const StateUses found = find_state_uses(root, {{"a", block}});
    const auto use = found.storages.find(
        block.attr("w").toTensor().storage().unsafeGetStorageImpl());
    ASSERT_NE(use, found.storages.end()) << view;
    EXPECT_EQ(use->second.use, StateUse::kWritten) << view;
  }
}

TEST_F(StateUsesTest, StatisticsAreWrittenWhileTheyAreTrained) {
  block(0).define(R"(
def norm(self, x, training: bool):
    return torch.batch_norm(x, self.w, None, self.s, self.list[0], training,
                            0.1, 1e-5, False)

def forward(self, x):
    return self.norm(x, True)
)");
  block(1).define(R"(
def norm(self, x, training: bool):
    return torch.batch_norm(x, self.w, None, self.s, self.list[0], training,
                            0.1, 1e-5, False)

def forward(self, x):
    return self.norm(x, not True)
)");
  sources_ = {
      "def denoise(self, x):\n"
      "    return self.b.forward(self.a.forward(x))\n"};
  const StateUses found = uses();
  EXPECT_EQ(use_of(found, "a", "s"),
            "written: written by aten::batch_norm in a.norm");
  EXPECT_EQ(use_of(found, "a", "list"),
            "written: written by aten::batch_norm in a.norm");
  EXPECT_EQ(use_of(found, "a", "w"), "read");
  EXPECT_EQ(use_of(found, "b", "s"), "read");
  EXPECT_EQ(use_of(found, "b", "list"), "read");
}

TEST_F(StateUsesTest, WhatGradientsMayKeepIsShared) {
  block(0).define("def forward(self, x):\n    return x * self.w\n");
  block(1).define("def forward(self, x):\n    return x * self.w + self.s\n");
  sources_ = {R"(
def denoise(self, x):
    y = self.b.forward(x)
    torch.set_grad_enabled(True)
    y = self.a.forward(y)
    torch.set_grad_enabled(False)
    return self.b.forward(y)
)"};
  const StateUses found = uses();
  EXPECT_EQ(use_of(found, "a", "w"),
            "shared: used while gradients are recorded, in a.forward");
  EXPECT_EQ(use_of(found, "b", "w"), "read");
  EXPECT_EQ(use_of(found, "b", "s"), "read");
}

TEST_F(StateUsesTest, GradientsMayBeOnAfterABranchAndInALoop) {
  block(0).define("def forward(self, x):\n    return x * self.w\n");
  block(1).define("def forward(self, x):\n    return x * self.w\n");
  sources_ = {R"(
def denoise(self, x):
    for i in range(2):
        x = self.a.forward(x)
        if bool(x.sum() > 0):
            torch.set_grad_enabled(True)
    return self.b.forward(x)
)",
              "def decode(self, x):\n    return x + self.b.s\n"};
  const StateUses found = uses();
  EXPECT_EQ(use_of(found, "a", "w"),
            "shared: used while gradients are recorded, in a.forward");
  EXPECT_EQ(use_of(found, "b", "w"),
            "shared: used while gradients are recorded, in b.forward");
  // Another call begins without.
  EXPECT_EQ(use_of(found, "b", "s"), "shared: read in decode, outside of b");
}

// A method that sets what decides a branch, after the branch was looked at.
TEST_F(StateUsesTest, AnAttributeThatIsSetDecidesNoBranch) {
  root_.register_attribute("flag", c10::BoolType::get(), false);
  block(0).define("def forward(self, x):\n    return x * self.w\n");
  sources_ = {R"(
def denoise(self, x):
    if self.flag:
        x = x + self.a.s
    return self.a.forward(x)
)",
              R"(
def encode(self, x):
    self.flag = True
    return x
)"};
  const StateUses found = uses();
  EXPECT_EQ(use_of(found, "a", "s"), "shared: read in denoise, outside of a");
}

TEST_F(StateUsesTest, WhatIsCountedFromTheStorageStaysThere) {
  block(0).define(R"(
def forward(self, x):
    y = torch.as_strided(self.w, [2], [1]) + torch.as_strided(self.s, [2], [1], 1)
    return x + y.sum() + self.list[0].storage_offset()
)");
  sources_ = {"def denoise(self, x):\n    return self.a.forward(x)\n"};
  const StateUses found = uses();
  EXPECT_EQ(use_of(found, "a", "w"), "read");
  EXPECT_EQ(use_of(found, "a", "s"),
            "shared: used by aten::as_strided in a.forward, which counts from "
            "the start of its storage");
  EXPECT_EQ(use_of(found, "a", "list"),
            "shared: used by aten::storage_offset in a.forward, which counts "
            "from the start of its storage");
}

TEST_F(StateUsesTest, AnOperatorThatIsNotKnownMayDoAnything) {
  static const torch::jit::RegisterOperators kRegistered({torch::jit::Operator(
      "ferry_test::mystery(Tensor x) -> Tensor",
      [](torch::jit::Stack& /*stack*/) {},
      c10::AliasAnalysisKind::FROM_SCHEMA)});
  block(0).define("def forward(self, x):\n    return x + torch.neg(self.w)\n");
  for (torch::jit::Node* node :
       block(0).get_method("forward").graph()->nodes()) {
    if (node->kind() == c10::aten::neg) {
      node->replaceWithNewSymbol(
          c10::Symbol::fromQualString("ferry_test::mystery"));
      node->destroy();
      break;
    }
  }
  sources_ = {"def denoise(self, x):\n    return self.a.forward(x)\n"};
  const StateUses found = uses();
  EXPECT_EQ(use_of(found, "a", "w"),
            "written: given to ferry_test::mystery in a.forward, of which "
            "nothing is known");
}

TEST_F(StateUsesTest, LooksWithoutCachingWhatRuns) {
  block(0).define("def forward(self, x):\n    return x * self.w\n");
  sources_ = {"def denoise(self, x):\n    return self.a.forward(x)\n"};
  uses();
  HookRegistry hooks("a");
  const auto points = HookPoints::insert({{"a", block(0), &hooks}});
  EXPECT_TRUE(points.ok()) << points.status();
}

}  // namespace
}  // namespace ferry
