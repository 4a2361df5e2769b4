#include "pipelines/torchscript/state_uses.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipelines/torchscript/module_state.h"
#include "pipelines/torchscript/schema_aliases.h"

namespace ferry {
namespace {

using torch::jit::Block;
using torch::jit::GraphFunction;
using torch::jit::Node;
using torch::jit::Value;

// Calls nest at most so deep, else everything in sight counts as used.
constexpr int kMaxDepth = 64;

using Storages = std::set<const c10::StorageImpl*>;

// What is known of a value.
struct Known {
  // The object of the pipeline that it is, or None.
  c10::IValue object;
  // State that it may share memory with, or hold.
  Storages storages;
};

// The values of one call of a method.
using Frame = std::unordered_map<const Value*, Known>;

bool same_object(const c10::IValue& a, const c10::IValue& b) {
  return a.isObject() && b.isObject() && a.toObject() == b.toObject();
}

// Everything that a value may reach.
Storages contents(const Known& known) {
  Storages all = known.storages;
  if (!known.object.isNone()) {
    for (const at::Tensor& tensor : tensors_of(known.object)) {
      if (tensor.has_storage()) {
        all.insert(tensor.storage().unsafeGetStorageImpl());
      }
    }
  }
  return all;
}

// What is known of a value that is one of the two. Whether `into` changed.
bool merge(Known* into, const Known& other) {
  const size_t size = into->storages.size();
  if (!same_object(into->object, other.object)) {
    const bool had_object = !into->object.isNone();
    const Storages mine = contents(*into);
    const Storages theirs = contents(other);
    into->object = c10::IValue();
    into->storages.insert(mine.begin(), mine.end());
    into->storages.insert(theirs.begin(), theirs.end());
    return had_object || into->storages.size() != size;
  }
  into->storages.insert(other.storages.begin(), other.storages.end());
  return into->storages.size() != size;
}

std::vector<at::Tensor> constant_tensors(const Node& node) {
  if (!node.hasAttribute(c10::attr::value)) return {};
  switch (node.kindOf(c10::attr::value)) {
    case torch::jit::AttributeKind::t:
      return tensors_of(node.t(c10::attr::value));
    case torch::jit::AttributeKind::ival:
      return tensors_of(node.ival(c10::attr::value));
    default:
      return {};
  }
}

// Does the work of find_state_uses().
class Analysis {
 public:
  Analysis(const torch::jit::Module& root,
           const std::vector<BoundModule>& bound)
      : root_(root) {
    for (const auto& item : root.named_modules()) {
      paths_[item.value._ivalue().get()] = item.name;
    }
    for (const BoundModule& holder : bound) {
      const void* const object = holder.module._ivalue().get();
      for (const auto& item :
           collect_state(holder.module._ivalue(), holder.path).tensors) {
        if (!item.tensor.has_storage()) continue;
        holders_[item.tensor.storage().unsafeGetStorageImpl()].insert(object);
      }
    }
  }

  StateUses run() {
    for (const auto& method : root_.get_methods()) {
      auto* const function = torch::jit::tryToGraphFunction(method.function());
      if (function == nullptr) continue;
      std::vector<Known> arguments(function->graph()->inputs().size());
      arguments[0].object = root_._ivalue();
      (void)call(*function, std::move(arguments));
    }
    return std::move(uses_);
  }

 private:
  Known call(GraphFunction& function, std::vector<Known> arguments) {
    if (callers_.size() >= kMaxDepth) {
      Known all;
      for (const Known& argument : arguments) {
        mark(contents(argument), StateUse::kWritten, "calls nest too deep");
        merge(&all, argument);
      }
      return all;
    }
    const void* self = nullptr;
    if (!arguments.empty() && arguments[0].object.isObject()) {
      self = arguments[0].object.toObject().get();
    }
    callers_.push_back({self, function.name()});
    const auto graph = function.graph();
    Frame frame;
    for (size_t i = 0; i < graph->inputs().size(); ++i) {
      frame[graph->inputs()[i]] = std::move(arguments[i]);
    }
    run_block(*graph->block(), frame);
    Known result = frame[graph->outputs()[0]];
    callers_.pop_back();
    return result;
  }

  void run_block(const Block& block, Frame& frame) {
    for (const Node* node : block.nodes()) run_node(*node, frame);
  }

  void run_node(const Node& node, Frame& frame) {
    switch (node.kind()) {
      case c10::prim::Constant:
        return run_constant(node, frame);
      case c10::prim::GetAttr:
        return run_get_attribute(node, frame);
      case c10::prim::SetAttr:
        mark(contents(frame[node.input(1)]), StateUse::kWritten, by(node));
        return mark(attribute(node, frame).storages, StateUse::kWritten,
                    by(node));
      case c10::prim::CallMethod:
        return run_call_method(node, frame);
      case c10::prim::CallFunction:
        return run_call_function(node, frame);
      case c10::prim::If:
        return run_if(node, frame);
      case c10::prim::Loop:
        return run_loop(node, frame);
      case c10::prim::unchecked_cast:
        frame[node.output()] = frame[node.input(0)];
        return;
      default:
        return run_operator(node, frame);
    }
  }

  void run_constant(const Node& node, Frame& frame) {
    for (const at::Tensor& tensor : constant_tensors(node)) {
      if (tensor.dim() == 0 || !tensor.has_storage()) continue;
      const auto* const storage = tensor.storage().unsafeGetStorageImpl();
      frame[node.output()].storages.insert(storage);
      mark({storage}, StateUse::kShared, "a constant");
      if (!constants_.insert(tensor.unsafeGetTensorImpl()).second) continue;
      uses_.constants.push_back(
          {absl::StrCat(place(), "#", uses_.constants.size()), tensor});
    }
  }

  // The attribute that a GetAttr or SetAttr is about.
  Known attribute(const Node& node, Frame& frame) {
    const Known& owner = frame[node.input(0)];
    Known known;
    if (!owner.object.isObject()) {
      known.storages = owner.storages;
      return known;
    }
    const c10::IValue value =
        owner.object.toObject()->getAttr(node.s(c10::attr::name));
    if (value.isObject()) {
      known.object = value;
    } else {
      Known holder;
      holder.object = value;
      known.storages = contents(holder);
    }
    return known;
  }

  void run_get_attribute(const Node& node, Frame& frame) {
    Known known = attribute(node, frame);
    for (const c10::StorageImpl* storage : known.storages) {
      const auto holders = holders_.find(storage);
      if (holders == holders_.end()) continue;
      for (const void* holder : holders->second) {
        if (runs(holder)) continue;
        mark(
            {storage}, StateUse::kShared,
            absl::StrCat("read in ", place(), ", outside of ", paths_[holder]));
      }
    }
    frame[node.output()] = std::move(known);
  }

  void run_call_method(const Node& node, Frame& frame) {
    const Known& self = frame[node.input(0)];
    GraphFunction* function = nullptr;
    if (self.object.isObject()) {
      auto* const method =
          self.object.toObject()->type()->findMethod(node.s(c10::attr::name));
      if (method != nullptr) function = torch::jit::tryToGraphFunction(*method);
    }
    if (function == nullptr) return run_unknown(node, frame);
    std::vector<Known> arguments;
    for (const Value* input : node.inputs()) arguments.push_back(frame[input]);
    frame[node.output()] = call(*function, std::move(arguments));
  }

  void run_call_function(const Node& node, Frame& frame) {
    const auto type = node.input(0)->type()->cast<c10::FunctionType>();
    auto* const function =
        type ? torch::jit::tryToGraphFunction(*type->function()) : nullptr;
    if (function == nullptr) return run_unknown(node, frame);
    std::vector<Known> arguments;
    for (size_t i = 1; i < node.inputs().size(); ++i) {
      arguments.push_back(frame[node.input(i)]);
    }
    frame[node.output()] = call(*function, std::move(arguments));
  }

  void run_if(const Node& node, Frame& frame) {
    for (const Block* block : node.blocks()) run_block(*block, frame);
    for (size_t i = 0; i < node.outputs().size(); ++i) {
      Known known = frame[node.blocks()[0]->outputs()[i]];
      merge(&known, frame[node.blocks()[1]->outputs()[i]]);
      frame[node.output(i)] = std::move(known);
    }
  }

  // Inputs: trips, condition, carried …; the body's: trip, carried …, and its
  // outputs: condition, carried …
  void run_loop(const Node& node, Frame& frame) {
    const Block& body = *node.blocks()[0];
    std::vector<Known> carried;
    for (size_t i = 2; i < node.inputs().size(); ++i) {
      carried.push_back(frame[node.input(i)]);
    }
    bool changed = true;
    while (changed) {
      for (size_t i = 0; i < carried.size(); ++i) {
        frame[body.inputs()[i + 1]] = carried[i];
      }
      run_block(body, frame);
      changed = false;
      for (size_t i = 0; i < carried.size(); ++i) {
        changed |= merge(&carried[i], frame[body.outputs()[i + 1]]);
      }
    }
    for (size_t i = 0; i < carried.size(); ++i) {
      frame[node.output(i)] = carried[i];
    }
  }

  void run_operator(const Node& node, Frame& frame) {
    if (!node.blocks().empty()) return run_unknown(node, frame);
    const c10::FunctionSchema* const schema = node.maybeSchema();
    if (schema == nullptr || node.kind().is_prim()) {
      // Builds, takes apart, compares: what comes out may be what goes in.
      if (!node.kind().is_prim() || node.kind() == c10::prim::fork) {
        return run_unknown(node, frame);
      }
      return set_outputs(node, frame, all_inputs(node, frame));
    }
    const torch::jit::Operator* const op = node.maybeOperator();
    if (op == nullptr ||
        op->aliasAnalysisKind() == c10::AliasAnalysisKind::CONSERVATIVE) {
      return run_unknown(node, frame);
    }
    const SchemaAliases aliases(*schema);
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      if (aliases.writes(i)) {
        mark(contents(frame[node.input(i)]), StateUse::kWritten, by(node));
      } else if (aliases.fills_a_container()) {
        mark(contents(frame[node.input(i)]), StateUse::kShared, by(node));
      }
    }
    for (size_t o = 0; o < node.outputs().size(); ++o) {
      Known known;
      for (size_t i = 0; i < node.inputs().size(); ++i) {
        if (aliases.may_return(i, o)) merge(&known, frame[node.input(i)]);
      }
      set_output(*node.output(o), frame, known);
    }
  }

  // Whatever it is, it may do anything with its inputs.
  void run_unknown(const Node& node, Frame& frame) {
    const Known all = all_inputs(node, frame);
    mark(all.storages, StateUse::kWritten, by(node));
    for (const Block* block : node.blocks()) run_block(*block, frame);
    set_outputs(node, frame, all);
  }

  Known all_inputs(const Node& node, Frame& frame) {
    Known all;
    for (const Value* input : node.inputs()) merge(&all, frame[input]);
    return all;
  }

  void set_outputs(const Node& node, Frame& frame, const Known& known) {
    for (const Value* output : node.outputs()) {
      set_output(*output, frame, known);
    }
  }

  void set_output(const Value& output, Frame& frame, const Known& known) {
    if (may_hold_tensors(*output.type())) {
      frame[&output] = {c10::IValue(), contents(known)};
    }
  }

  void mark(const Storages& storages, StateUse use, const std::string& reason) {
    for (const c10::StorageImpl* storage : storages) {
      StateUses::Use& entry = uses_.storages[storage];
      if (entry.use < use) entry = {use, reason};
    }
  }

  bool runs(const void* object) const {
    return std::any_of(
        callers_.begin(), callers_.end(),
        [object](const Caller& caller) { return caller.self == object; });
  }

  // The innermost module whose method runs, and that method.
  std::string place() const {
    for (auto caller = callers_.rbegin(); caller != callers_.rend(); ++caller) {
      const auto path = paths_.find(caller->self);
      if (path == paths_.end()) continue;
      return path->second.empty()
                 ? caller->method
                 : absl::StrCat(path->second, ".", caller->method);
    }
    return callers_.back().method;
  }

  std::string by(const Node& node) const {
    return absl::StrCat("written by ", node.kind().toQualString(), " in ",
                        place());
  }

  struct Caller {
    // Null: a function, or an unknown object.
    const void* self = nullptr;
    std::string method;
  };

  const torch::jit::Module root_;
  std::map<const void*, std::string> paths_;
  // Blocks and components that hold a storage.
  std::map<const c10::StorageImpl*, std::set<const void*>> holders_;
  std::vector<Caller> callers_;
  std::set<const void*> constants_;
  StateUses uses_;
};

}  // namespace

StateUses find_state_uses(const torch::jit::Module& root,
                          const std::vector<BoundModule>& bound) {
  return Analysis(root, bound).run();
}

}  // namespace ferry
