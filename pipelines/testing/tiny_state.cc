#include "pipelines/testing/tiny_state.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/jit/api/compilation_unit.h>

#include <functional>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

using torch::jit::Module;

struct Kind {
  std::function<void(Module&)> add;
  // Lines that make `s`, a scalar. `m` is the mean of x.
  std::string source;
};

std::function<void(Module&)> buffer(const std::string& name,
                                    const at::Tensor& values) {
  // Each module has its own.
  return [=](Module& module) { module.register_buffer(name, values.clone()); };
}

std::function<void(Module&)> attribute(
    const std::string& name, const c10::TypePtr& type,
    const std::function<c10::IValue()>& make) {
  return [=](Module& module) { module.register_attribute(name, type, make()); };
}

void add_aliases(Module& module) {
  const at::Tensor whole = at::zeros({4});
  module.register_buffer("whole", whole);
  module.register_buffer("part", whole.narrow(0, 1, 2));
}

// An object of a class that is no module.
void add_object(Module& module) {
  const auto unit = module._ivalue()->compilation_unit();
  const c10::QualifiedName name("__torch__.tiny.State");
  auto type = unit->get_class(name);
  if (type == nullptr) {
    type = c10::ClassType::create(name, unit);
    type->addAttribute("count", c10::IntType::get());
    type->addAttribute("seen", c10::TensorType::get());
    unit->register_type(type);
  }
  auto object = c10::ivalue::Object::create(c10::StrongTypePtr(unit, type), 2);
  object->setSlot(0, 0);
  object->setSlot(1, at::zeros({2}));
  module.register_attribute("state", type, object);
}

void add_flags(Module& module) {
  module.register_attribute("flag", c10::BoolType::get(), false);
  module.register_attribute("name", c10::StringType::get(), std::string("a"));
}

c10::IValue nested_lists() {
  c10::List<c10::List<int64_t>> lists;
  for (const int64_t value : {1, 2}) {
    lists.push_back(c10::List<int64_t>({value}));
  }
  return lists;
}

const std::map<std::string, Kind>& kinds() {
  const auto tensor = c10::TensorType::get();
  const auto integer = c10::IntType::get();
  static const std::map<std::string, Kind> kKinds = {
      {"buffer", {buffer("seen", at::zeros({2})), R"(
    self.seen.mul_(0.9).add_(m + 1.0)
    s = self.seen.sum()
)"}},
      {"counter",
       {attribute("count", integer, [] { return c10::IValue(0); }), R"(
    self.count = self.count + 1
    s = m + float(self.count)
)"}},
      {"optional",
       {attribute("cache", c10::OptionalType::create(tensor),
                  [] { return c10::IValue(); }),
        R"(
    cache = self.cache
    if cache is None:
        s = m
    else:
        s = cache * 0.5 + m + 1.0
    self.cache = s
)"}},
      {"list",
       {attribute("items", c10::ListType::ofTensors(),
                  [] { return c10::List<at::Tensor>(); }),
        R"(
    self.items.append(m + 1.0)
    s = torch.stack(self.items).sum()
)"}},
      {"dict",
       {attribute("items",
                  c10::DictType::create(c10::StringType::get(), tensor),
                  [] { return c10::Dict<std::string, at::Tensor>(); }),
        R"(
    self.items[str(len(self.items))] = m + 1.0
    s = torch.stack(self.items.values()).sum()
)"}},
      {"tuple",
       {attribute("pair", c10::TupleType::create({integer, tensor}),
                  [] {
                    return c10::ivalue::Tuple::create({0, at::zeros({})});
                  }),
        R"(
    pair = self.pair
    self.pair = (pair[0] + 1, pair[1] + m)
    s = pair[1] + float(pair[0])
)"}},
      {"in_tuple",
       {attribute("pair",
                  c10::TupleType::create({c10::ListType::ofInts(), tensor}),
                  [] {
                    return c10::ivalue::Tuple::create(
                        {c10::List<int64_t>({7}), at::zeros({3})});
                  }),
        R"(
    self.pair[0].append(1)
    self.pair[1].add_(m)
    s = self.pair[1].sum() + float(len(self.pair[0]))
)"}},
      {"nested_lists",
       {attribute("lists", c10::ListType::create(c10::ListType::ofInts()),
                  nested_lists),
        R"(
    self.lists[0].append(3)
    self.lists.append([4])
    s = m + float(len(self.lists[0]) + 10 * len(self.lists))
)"}},
      {"object", {add_object, R"(
    self.state.count = self.state.count + 1
    self.state.seen.add_(m)
    s = self.state.seen.sum() + float(self.state.count)
)"}},
      {"flags", {add_flags, R"(
    self.flag = not self.flag
    self.name = self.name + "x"
    s = m + float(len(self.name))
    if self.flag:
        s = s + 5.0
)"}},
      {"resized", {buffer("grid", at::arange(64.0)), R"(
    self.grid.resize_([self.grid.numel() - 1])
    s = self.grid.sum() * 0.01
)"}},
      {"transposed", {buffer("grid", at::arange(6.0).reshape({2, 3})), R"(
    self.grid.transpose_(0, 1)
    s = self.grid[1].sum()
)"}},
      {"set", {buffer("seen", at::zeros({2})), R"(
    self.seen.set_(self.seen * 0.5 + m + 1.0)
    s = self.seen.sum()
)"}},
      {"replaced",
       {attribute("memo", tensor, [] { return at::zeros({2}); }), R"(
    self.memo = self.memo * 0.5 + m + 1.0
    s = self.memo.sum()
)"}},
      {"aliases", {add_aliases, R"(
    self.whole.add_(m + 1.0)
    s = self.part.sum()
)"}},
      {"grown", {buffer("seen", at::empty({0})), R"(
    self.seen = torch.cat([self.seen, (m + 1.0).reshape(1)])
    s = self.seen.sum()
)"}},
      {"dropout", {[](Module&) {}, R"(
    x = torch.dropout(x, 0.2, True)
    s = m
)"}},
      {"randn_like", {[](Module&) {}, R"(
    s = torch.randn_like(m) * 5.0
)"}},
      {"bernoulli", {buffer("mask", at::zeros({64})), R"(
    self.mask.bernoulli_(0.5)
    s = self.mask.sum()
)"}},
      {"multinomial", {buffer("weights", at::ones({64})), R"(
    s = m + torch.multinomial(self.weights, 2).sum() * 0.1
)"}},
  };
  return kKinds;
}

}  // namespace

std::vector<std::string> tiny_state_kinds() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds()) names.push_back(name);
  return names;
}

void add_tiny_state(const std::string& name, Module* module) {
  const Kind& kind = kinds().at(name);
  kind.add(*module);
  module->define(absl::StrCat(R"(
def remember(self, x):
    m = x.to(6).mean()
)",
                              kind.source, R"(
    return x + (0.02 * s).to(x.dtype)
)"));
}

}  // namespace ferry
