#include "pipelines/torchscript/attribute_snapshot.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace ferry {
namespace {

using torch::jit::CompilationUnit;
using torch::jit::Module;

bool no_tensor(const at::Tensor& /*tensor*/) { return false; }

class AttributeSnapshotTest : public testing::Test {
 protected:
  AttributeSnapshotTest()
      : unit_(std::make_shared<CompilationUnit>()),
        module_(c10::QualifiedName("__torch__.Stateful"), unit_,
                /*shouldMangle=*/true) {}

  // Runs `body` again and again from the package's state; every time it returns
  // the same.
  void expect_repeats(const std::string& body) {
    module_.define("def forward(self, x):\n" + body);
    AttributeSnapshot snapshot(module_, no_tensor);
    snapshot.keep();
    std::string first;
    for (int generation = 0; generation < 3; ++generation) {
      ASSERT_EQ(snapshot.restore(), absl::OkStatus());
      std::ostringstream seen;
      for (int step = 0; step < 3; ++step) {
        seen << module_.forward({at::arange(3.0)}) << "\n";
      }
      if (generation == 0) first = seen.str();
      EXPECT_EQ(seen.str(), first);
    }
    // What it returns does depend on what ran before.
    std::ostringstream later;
    for (int step = 0; step < 3; ++step) {
      later << module_.forward({at::arange(3.0)}) << "\n";
    }
    EXPECT_NE(later.str(), first);
  }

  const std::shared_ptr<CompilationUnit> unit_;
  Module module_;
};

TEST_F(AttributeSnapshotTest, Numbers) {
  module_.register_attribute("i", c10::IntType::get(), 3);
  module_.register_attribute("f", c10::FloatType::get(), 0.0);
  module_.register_attribute("b", c10::BoolType::get(), true);
  module_.register_attribute("s", c10::StringType::get(), std::string("a"));
  expect_repeats(R"(
    self.i = self.i + 1
    self.f = -1.0 / (self.f - 1.0)
    self.b = not self.b
    self.s = self.s + "b"
    return (self.i, self.f, self.b, self.s)
)");
}

TEST_F(AttributeSnapshotTest, EqualNumbersMayHaveOtherBits) {
  module_.register_attribute("zero", c10::FloatType::get(), 0.0);
  AttributeSnapshot snapshot(module_, no_tensor);
  module_.setattr("zero", -0.0);
  ASSERT_EQ(snapshot.restore(), absl::OkStatus());
  EXPECT_FALSE(std::signbit(module_.attr("zero").toDouble()));
  module_.setattr("zero", std::numeric_limits<double>::quiet_NaN());
  ASSERT_EQ(snapshot.restore(), absl::OkStatus());
  EXPECT_EQ(module_.attr("zero").toDouble(), 0);
}

TEST_F(AttributeSnapshotTest, ListsInEveryWay) {
  module_.register_attribute("l", c10::ListType::ofInts(),
                             c10::List<int64_t>({5, 1, 4}));
  expect_repeats(R"(
    self.l.append(2)
    self.l.sort()
    self.l[0] = 9
    self.l.insert(1, self.l.pop())
    self.l.reverse()
    self.l.extend([1, 2])
    self.l.remove(2)
    return (self.l[0], self.l[1], self.l[2], len(self.l))
)");
}

TEST_F(AttributeSnapshotTest, DictsAndTheirOrder) {
  c10::Dict<std::string, int64_t> dict;
  dict.insert("b", 1);
  dict.insert("a", 2);
  module_.register_attribute(
      "d", c10::DictType::create(c10::StringType::get(), c10::IntType::get()),
      dict);
  expect_repeats(R"(
    v = self.d.pop("b")
    self.d["b"] = v + 1
    self.d["c"] = 3
    del self.d["c"]
    self.d["a"] = self.d["a"] * 2
    return self.d.items()
)");
}

TEST_F(AttributeSnapshotTest, AListThatTwoHoldStaysOne) {
  const c10::List<int64_t> list({1});
  module_.register_attribute("a", c10::ListType::ofInts(), list);
  module_.register_attribute("b", c10::ListType::ofInts(), list);
  expect_repeats(R"(
    self.a.append(1)
    n = len(self.b)
    self.b = [1, 2, 3]
    return n * 10 + len(self.a)
)");
}

TEST_F(AttributeSnapshotTest, ContainersInContainers) {
  using Lists = c10::List<c10::List<int64_t>>;
  Lists lists;
  lists.push_back(c10::List<int64_t>({1}));
  c10::Dict<std::string, Lists> dict;
  dict.insert("k", lists);
  module_.register_attribute(
      "d",
      c10::TupleType::create(
          {c10::IntType::get(),
           c10::DictType::create(
               c10::StringType::get(),
               c10::ListType::create(c10::ListType::ofInts()))}),
      c10::ivalue::Tuple::create({1, dict}));
  expect_repeats(R"(
    self.d[1]["k"][0].append(7)
    self.d[1]["k"].append([2])
    return (len(self.d[1]["k"]), len(self.d[1]["k"][0]))
)");
}

TEST_F(AttributeSnapshotTest, AModuleInAnotherPlace) {
  Module inner(c10::QualifiedName("__torch__.Inner"), unit_, true);
  inner.register_attribute("n", c10::IntType::get(), 0);
  inner.define(R"(
def forward(self):
    self.n = self.n + 1
    return self.n
)");
  module_.register_module("inner", inner);
  expect_repeats(R"(
    return self.inner.forward() + self.inner.n
)");
}

TEST_F(AttributeSnapshotTest, TensorsThatNobodyElseKeeps) {
  module_.register_attribute("t", c10::TensorType::get(), at::zeros({2}));
  expect_repeats(R"(
    self.t.add_(1).resize_([1])
    return (self.t.numel(), self.t.sum())
)");
}

// Tracing makes constants of tensors that are no attributes.
TEST_F(AttributeSnapshotTest, ScalarsThatTracedCodeWrites) {
  const at::Tensor counter = at::ones({});
  const auto traced = torch::jit::tracer::trace(
      {at::arange(3.0)},
      [&](const torch::jit::Stack& inputs) {
        counter.add_(inputs[0].toTensor().sum());
        return torch::jit::Stack{counter * 2};
      },
      [](const torch::autograd::Variable&) { return std::string(); },
      /*strict=*/true, /*force_outplace=*/false, &module_, {"x"});
  module_.type()->addMethod(unit_->create_function(
      c10::QualifiedName(*module_.type()->name(), "traced"),
      traced.first->graph));
  expect_repeats(R"(
    return self.traced(x)
)");
}

TEST_F(AttributeSnapshotTest, GradientsThatPile) {
  at::Tensor weight = at::ones({3});
  weight.set_requires_grad(true);
  module_.register_parameter("w", weight, false);
  module_.register_buffer("frozen", at::ones({3}));
  expect_repeats(R"(
    (self.w * x).sum().backward()
    self.frozen.requires_grad_(True)
    g = self.w.grad
    r = self.frozen * 1.0
    if g is not None:
        r = r + g
    return r.detach()
)");
  EXPECT_TRUE(weight.requires_grad());
}

TEST_F(AttributeSnapshotTest, ObjectsThatReferToEachOther) {
  // A chain so long that no recursion would end, and a circle.
  auto type =
      c10::ClassType::create(c10::QualifiedName("__torch__.Link"), unit_);
  type->addAttribute("next", c10::OptionalType::create(type));
  type->addAttribute("n", c10::IntType::get());
  unit_->register_type(type);
  const auto make = [&] {
    return c10::ivalue::Object::create(c10::StrongTypePtr(unit_, type), 2);
  };
  const auto first = make();
  auto last = first;
  first->setSlot(1, 0);
  for (int i = 1; i < 20000; ++i) {
    const auto next = make();
    next->setSlot(1, i);
    last->setSlot(0, next);
    last = next;
  }
  last->setSlot(0, first);
  module_.register_attribute("link", type, first);
  AttributeSnapshot snapshot(module_, no_tensor);
  last->setSlot(1, -1);
  ASSERT_EQ(snapshot.restore(), absl::OkStatus());
  EXPECT_EQ(last->getSlot(1).toInt(), 19999);
  // Neither would its destruction.
  for (auto link = first; link->getSlot(0).isObject();) {
    const auto next = link->getSlot(0).toObject();
    link->setSlot(0, {});
    link = next;
  }
}

}  // namespace
}  // namespace ferry
