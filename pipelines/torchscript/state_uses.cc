#include "pipelines/torchscript/state_uses.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipelines/torchscript/known_value.h"
#include "pipelines/torchscript/module_state.h"
#include "pipelines/torchscript/operator_effects.h"

namespace ferry {
namespace {

using torch::jit::Block;
using torch::jit::GraphFunction;
using torch::jit::Node;
using torch::jit::Value;

// Calls nest at most so deep, else everything in sight counts as used.
constexpr int kMaxDepth = 64;

// The values of one call of a method.
using Frame = std::unordered_map<const Value*, KnownValue>;

std::vector<at::Tensor> constant_tensors(const Node& node) {
  if (!node.hasAttribute(c10::attr::value)) return {};
  switch (node.kindOf(c10::attr::value)) {
    case torch::jit::AttributeKind::t:
      return tensors_of(node.t(c10::attr::value));
    case torch::jit::AttributeKind::ts:
      return node.ts(c10::attr::value);
    case torch::jit::AttributeKind::ival:
      return tensors_of(node.ival(c10::attr::value));
    default:
      return {};
  }
}

const c10::Symbol& set_grad_enabled() {
  static const auto kSymbol =
      c10::Symbol::fromQualString("aten::set_grad_enabled");
  return kSymbol;
}

c10::ClassTypePtr class_of(const Value& value) {
  return value.type()->cast<c10::ClassType>();
}

GraphFunction* find_graph_method(const c10::ClassTypePtr& type,
                                 const std::string& name) {
  torch::jit::Function* const method = type ? type->findMethod(name) : nullptr;
  return method ? torch::jit::tryToGraphFunction(*method) : nullptr;
}

// torch.no_grad() in a `with`. What was on before is on afterwards.
bool is_no_grad(const c10::ClassTypePtr& type) {
  return type && type->name() &&
         type->name()->qualifiedName() ==
             "__torch__.torch.autograd.grad_mode.no_grad";
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
      bound_.insert(object);
      for (const c10::StorageImpl* storage :
           storages_of(holder.module._ivalue())) {
        holders_[storage].insert(object);
      }
    }
  }

  // Again, when it has seen that an attribute changes whose value it took for
  // a fixed one.
  StateUses run() {
    size_t known_changes = 0;
    do {
      known_changes = changing_.size();
      for (const auto& method : root_.get_methods()) run_root(method);
    } while (changing_.size() != known_changes);
    return std::move(uses_);
  }

 private:
  struct Caller {
    // Null: a function, or an unknown object.
    const void* self = nullptr;
    std::string name;
    // A method of that object's class, which has hook points if the object is
    // bound. Functions that get the object as an argument, as forward hooks
    // do, have none.
    bool is_method = false;
  };

  void run_root(const torch::jit::Method& method) {
    auto* const function = torch::jit::tryToGraphFunction(method.function());
    if (function == nullptr) return;
    std::vector<KnownValue> arguments(function->graph()->inputs().size());
    arguments[0].exact = root_._ivalue();
    // Each call from outside begins without gradients.
    records_gradients_ = false;
    (void)call(*function, std::move(arguments), true);
  }

  KnownValue call(GraphFunction& function, std::vector<KnownValue> arguments,
                  bool is_method) {
    if (callers_.size() >= kMaxDepth) return give_up_on(arguments);
    const void* self = nullptr;
    if (!arguments.empty() && arguments[0].exact.isObject()) {
      self = arguments[0].exact.toObject().get();
    }
    callers_.push_back({self, function.name(), is_method});
    const auto graph = function.graph();
    Frame frame;
    for (size_t i = 0; i < graph->inputs().size(); ++i) {
      frame[graph->inputs()[i]] = std::move(arguments[i]);
    }
    run_block(*graph->block(), frame);
    KnownValue result = frame[graph->outputs()[0]];
    // A hook copies what shares memory with a block, and cannot copy objects.
    if (is_method && bound_.count(self) > 0 &&
        may_hold_objects(*graph->outputs()[0]->type())) {
      mark(result.contents(), StateUse::kShared,
           absl::StrCat("returned in an object by ", place()));
    }
    callers_.pop_back();
    return result;
  }

  KnownValue give_up_on(const std::vector<KnownValue>& arguments) {
    KnownValue all;
    for (const KnownValue& argument : arguments) all.merge(argument);
    mark(all.contents(), StateUse::kWritten, "calls nest too deep");
    return all;
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
        return run_set_attribute(node, frame);
      case c10::prim::CallMethod:
        return run_method(node, node.s(c10::attr::name), frame);
      case c10::prim::CallFunction:
        return run_call_function(node, frame);
      case c10::prim::Enter:
        return run_enter(node, frame);
      case c10::prim::Exit:
        return run_exit(node, frame);
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
    if (node.output()->type()->kind() == c10::TypeKind::BoolType) {
      frame[node.output()].exact = *torch::jit::toIValue(node.output());
      return;
    }
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

  // An attribute by its class and name: what a SetAttr says of it.
  using Attribute = std::pair<const c10::Type*, std::string>;

  static Attribute attribute_of(const Node& node) {
    return {node.input(0)->type().get(), node.s(c10::attr::name)};
  }

  // The attribute that a GetAttr or SetAttr is about, as it is when nothing has
  // run. (What is set later counts as written.)
  KnownValue attribute(const Node& node, Frame& frame) {
    const KnownValue& owner = frame[node.input(0)];
    KnownValue known;
    if (!owner.exact.isObject()) {
      known.storages = owner.storages;
      return known;
    }
    const c10::IValue value =
        owner.exact.toObject()->getAttr(node.s(c10::attr::name));
    const bool is_fixed = changing_.count(attribute_of(node)) == 0;
    if (is_fixed && (value.isObject() || value.isBool())) {
      known.exact = value;
    } else {
      known.storages = storages_of(value);
    }
    return known;
  }

  void run_get_attribute(const Node& node, Frame& frame) {
    KnownValue known = attribute(node, frame);
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

  void run_set_attribute(const Node& node, Frame& frame) {
    changing_.insert(attribute_of(node));
    mark(frame[node.input(1)].contents(), StateUse::kWritten, by(node));
    mark(attribute(node, frame).contents(), StateUse::kWritten, by(node));
  }

  // Calls a method of the first input, with all inputs.
  void run_method(const Node& node, const std::string& name, Frame& frame) {
    const KnownValue& self = frame[node.input(0)];
    const bool is_exact = self.exact.isObject();
    GraphFunction* const function = find_graph_method(
        is_exact ? self.exact.toObject()->type() : class_of(*node.input(0)),
        name);
    if (function == nullptr) return run_unknown(node, frame);
    std::vector<KnownValue> arguments;
    for (const Value* input : node.inputs()) arguments.push_back(frame[input]);
    // prim::Exit has the arguments of __exit__ only by the interpreter.
    arguments.resize(function->graph()->inputs().size());
    frame[node.output()] = call(*function, std::move(arguments), is_exact);
  }

  void run_call_function(const Node& node, Frame& frame) {
    const auto type = node.input(0)->type()->cast<c10::FunctionType>();
    auto* const function =
        type ? torch::jit::tryToGraphFunction(*type->function()) : nullptr;
    if (function == nullptr) return run_unknown(node, frame);
    std::vector<KnownValue> arguments;
    for (size_t i = 1; i < node.inputs().size(); ++i) {
      arguments.push_back(frame[node.input(i)]);
    }
    frame[node.output()] = call(*function, std::move(arguments), false);
  }

  void run_enter(const Node& node, Frame& frame) {
    if (!is_no_grad(class_of(*node.input(0)))) {
      return run_method(node, "__enter__", frame);
    }
    suspended_.push_back(records_gradients_);
    records_gradients_ = false;
  }

  void run_exit(const Node& node, Frame& frame) {
    if (!is_no_grad(class_of(*node.input(0))) || suspended_.empty()) {
      return run_method(node, "__exit__", frame);
    }
    records_gradients_ = suspended_.back();
    suspended_.pop_back();
  }

  void run_if(const Node& node, Frame& frame) {
    const std::optional<bool> condition = frame[node.input(0)].as_bool();
    if (condition) return run_branch(node, *condition ? 0 : 1, frame);
    const bool records_before = records_gradients_;
    run_branch(node, 0, frame);
    const bool records_then = records_gradients_;
    records_gradients_ = records_before;
    std::vector<KnownValue> then;
    for (const Value* output : node.outputs()) then.push_back(frame[output]);
    run_branch(node, 1, frame);
    records_gradients_ = records_gradients_ || records_then;
    for (size_t i = 0; i < then.size(); ++i) {
      frame[node.output(i)].merge(then[i]);
    }
  }

  void run_branch(const Node& node, size_t index, Frame& frame) {
    const Block& block = *node.blocks()[index];
    run_block(block, frame);
    for (size_t i = 0; i < node.outputs().size(); ++i) {
      frame[node.output(i)] = frame[block.outputs()[i]];
    }
  }

  // Inputs: trips, condition, carried …; the body's: trip, carried …, and its
  // outputs: condition, carried …
  void run_loop(const Node& node, Frame& frame) {
    const Block& body = *node.blocks()[0];
    std::vector<KnownValue> carried;
    for (size_t i = 2; i < node.inputs().size(); ++i) {
      carried.push_back(frame[node.input(i)]);
    }
    bool changed = true;
    while (changed) {
      const bool records_before = records_gradients_;
      for (size_t i = 0; i < carried.size(); ++i) {
        frame[body.inputs()[i + 1]] = carried[i];
      }
      run_block(body, frame);
      records_gradients_ = records_gradients_ || records_before;
      changed = records_gradients_ != records_before;
      for (size_t i = 0; i < carried.size(); ++i) {
        changed |= carried[i].merge(frame[body.outputs()[i + 1]]);
      }
    }
    for (size_t i = 0; i < carried.size(); ++i) {
      frame[node.output(i)] = carried[i];
    }
  }

  void run_operator(const Node& node, Frame& frame) {
    if (!node.blocks().empty()) return run_unknown(node, frame);
    if (node.kind() == set_grad_enabled()) {
      records_gradients_ = frame[node.input(0)].as_bool().value_or(true);
      return;
    }
    if (only_passes_values_on(node)) {
      return set_outputs(node, frame, all_inputs(node, frame));
    }
    const std::optional<OperatorEffects> effects = OperatorEffects::find(node);
    if (!effects) return run_unknown(node, frame);
    if (records_gradients_) {
      mark(all_inputs(node, frame).storages, StateUse::kShared,
           absl::StrCat("used while gradients are recorded, in ", place()));
    }
    if (effects->sees_storage()) {
      // What a block returns is copied, and the copy lies elsewhere.
      mark(all_inputs(node, frame).storages, StateUse::kShared,
           absl::StrCat("used by ", node.kind().toQualString(), " in ", place(),
                        ", which counts from the start of its storage"));
    }
    mark_written(node, *effects, frame);
    for (size_t o = 0; o < node.outputs().size(); ++o) {
      KnownValue known;
      for (size_t i = 0; i < node.inputs().size(); ++i) {
        if (effects->may_return(i, o)) known.merge(frame[node.input(i)]);
      }
      set_output(*node.output(o), frame, known);
    }
    if (node.kind() == c10::aten::__not__) run_not(node, frame);
  }

  void mark_written(const Node& node, const OperatorEffects& effects,
                    Frame& frame) {
    const std::optional<size_t> training = effects.training_input();
    const bool trains =
        !training || frame[node.input(*training)].as_bool().value_or(true);
    // What is put into a container may be written by who takes it out again.
    const bool fills = effects.fills_a_container();
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      if (fills || effects.writes(i, trains)) {
        mark(frame[node.input(i)].contents(), StateUse::kWritten, by(node));
      }
    }
  }

  void run_not(const Node& node, Frame& frame) {
    const std::optional<bool> input = frame[node.input(0)].as_bool();
    if (input) frame[node.output()].exact = !*input;
  }

  // Whatever it is, it may do anything with its inputs.
  void run_unknown(const Node& node, Frame& frame) {
    const KnownValue all = all_inputs(node, frame);
    mark(all.contents(), StateUse::kWritten,
         absl::StrCat("given to ", node.kind().toQualString(), " in ", place(),
                      ", of which nothing is known"));
    for (const Block* block : node.blocks()) run_block(*block, frame);
    set_outputs(node, frame, all);
  }

  KnownValue all_inputs(const Node& node, Frame& frame) {
    KnownValue all;
    for (const Value* input : node.inputs()) {
      const Storages reached = frame[input].contents();
      all.storages.insert(reached.begin(), reached.end());
    }
    return all;
  }

  void set_outputs(const Node& node, Frame& frame, const KnownValue& known) {
    for (const Value* output : node.outputs()) {
      set_output(*output, frame, known);
    }
  }

  void set_output(const Value& output, Frame& frame, const KnownValue& known) {
    KnownValue& value = frame[&output];
    value = {};
    if (may_hold_tensors(*output.type())) value.storages = known.contents();
  }

  void mark(const Storages& storages, StateUse use, const std::string& reason) {
    for (const c10::StorageImpl* storage : storages) {
      StateUses::Use& entry = uses_.storages[storage];
      if (entry.use < use) entry = {use, reason};
    }
  }

  // Whether the object's weights are bound: a method with hook points runs.
  bool runs(const void* object) const {
    return std::any_of(callers_.begin(), callers_.end(),
                       [object](const Caller& caller) {
                         return caller.is_method && caller.self == object;
                       });
  }

  // The innermost module whose method runs, and that method.
  std::string place() const {
    for (auto caller = callers_.rbegin(); caller != callers_.rend(); ++caller) {
      const auto path = paths_.find(caller->self);
      if (path == paths_.end()) continue;
      return path->second.empty()
                 ? caller->name
                 : absl::StrCat(path->second, ".", caller->name);
    }
    return callers_.back().name;
  }

  std::string by(const Node& node) const {
    return absl::StrCat("written by ", node.kind().toQualString(), " in ",
                        place());
  }

  const torch::jit::Module root_;
  std::map<const void*, std::string> paths_;
  std::set<const void*> bound_;
  // Blocks and components that hold a storage.
  std::map<const c10::StorageImpl*, std::set<const void*>> holders_;
  std::vector<Caller> callers_;
  // Attributes that some method sets.
  std::set<Attribute> changing_;
  // Whether LibTorch may keep what operators get for a backward pass, and what
  // that was before each torch.no_grad() that has not ended.
  bool records_gradients_ = false;
  std::vector<bool> suspended_;
  std::set<const void*> constants_;
  StateUses uses_;
};

}  // namespace

StateUses find_state_uses(const torch::jit::Module& root,
                          const std::vector<BoundModule>& bound) {
  return Analysis(root, bound).run();
}

}  // namespace ferry
