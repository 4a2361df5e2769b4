#include "pipelines/torchscript/state_uses.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>

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

  StateUses uses() {
    for (BoundModule& block : blocks_) {
      root_.register_module(block.path, block.module);
    }
    for (const std::string& source : sources_) root_.define(source);
    return find_state_uses(root_, blocks_);
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

TEST_F(StateUsesTest, WhatAContainerKeepsIsShared) {
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
            "shared: written by aten::append in a.forward");
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
