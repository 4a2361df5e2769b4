#include "pipelines/torchscript/hook_points.h"

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <set>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "offload/torch_status.h"
#include "pipelines/torchscript/ivalue_output.h"
#include "platform/base/mutex.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::GraphFunction;
using torch::jit::Node;
using torch::jit::Stack;
using torch::jit::Value;

const c10::Symbol& pre_symbol() {
  static const auto kSymbol = c10::Symbol::fromQualString("ferry::pre_forward");
  return kSymbol;
}

const c10::Symbol& post_symbol() {
  static const auto kSymbol =
      c10::Symbol::fromQualString("ferry::post_forward");
  return kSymbol;
}

// Which registry belongs to a module object. Thread-safe; one in the process,
// because operators are.
class HookTable {
 public:
  static HookTable& get() {
    static HookTable* const kTable = new HookTable;
    return *kTable;
  }

  void add(const void* module, HookRegistry* hooks) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    registries_[module] = hooks;
  }

  void remove(const void* module) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    registries_.erase(module);
  }

  // Null when the module has no registry. One without hooks counts too: it
  // must know that its module runs.
  HookRegistry* find(const void* module) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    const auto found = registries_.find(module);
    return found == registries_.end() ? nullptr : found->second;
  }

 private:
  Mutex mutex_;
  std::unordered_map<const void*, HookRegistry*> registries_ GUARDED_BY(mutex_);
};

void run_pre_forward(const c10::IValue& self) {
  HookRegistry* hooks = HookTable::get().find(&self.toObjectRef());
  if (hooks == nullptr) return;
  if (absl::Status status = hooks->pre_forward(); !status.ok()) {
    throw_status(std::move(status));
  }
}

void run_post_forward(const c10::IValue& self, c10::IValue* value) {
  HookRegistry* hooks = HookTable::get().find(&self.toObjectRef());
  if (hooks == nullptr) return;
  IValueOutput output(value);
  if (absl::Status status = hooks->post_forward(output); !status.ok()) {
    throw_status(std::move(status));
  }
}

// Stack: x, self → x.
void pre_forward_operator(Stack& stack) {
  run_pre_forward(stack.back());
  stack.pop_back();
}

// Stack: self →.
void pre_forward_alone_operator(Stack& stack) {
  run_pre_forward(stack.back());
  stack.pop_back();
}

// Stack: x, self → x.
void post_forward_operator(Stack& stack) {
  const c10::IValue self = torch::jit::pop(stack);
  run_post_forward(self, &stack.back());
}

const torch::jit::RegisterOperators kRegisterOperators({
    torch::jit::Operator("ferry::pre_forward(t x, Any self) -> t",
                         pre_forward_operator,
                         c10::AliasAnalysisKind::CONSERVATIVE),
    torch::jit::Operator("ferry::pre_forward.alone(Any self) -> ()",
                         pre_forward_alone_operator,
                         c10::AliasAnalysisKind::CONSERVATIVE),
    torch::jit::Operator("ferry::post_forward(t x, Any self) -> t",
                         post_forward_operator,
                         c10::AliasAnalysisKind::CONSERVATIVE),
});

std::vector<GraphFunction*> methods_of(const torch::jit::Module& module) {
  std::vector<GraphFunction*> methods;
  for (torch::jit::Function* method : module.type()->methods()) {
    if (auto* function = torch::jit::tryToGraphFunction(*method)) {
      methods.push_back(function);
    }
  }
  return methods;
}

bool calls_hooks(const Block& block) {
  for (const Node* node : block.nodes()) {
    if (node->kind() == pre_symbol() || node->kind() == post_symbol()) {
      return true;
    }
    for (const Block* inner : node->blocks()) {
      if (calls_hooks(*inner)) return true;
    }
  }
  return false;
}

bool has_hook_points(const Graph& graph) {
  for (const Node* node : graph.nodes()) {
    if (node->kind() == pre_symbol() &&
        node->inputs().back() == graph.inputs()[0]) {
      return true;
    }
  }
  return false;
}

void insert_into(Graph& graph) {
  Value* const self = graph.inputs()[0];
  if (graph.inputs().size() > 1) {
    Value* const input = graph.inputs()[1];
    Node* const pre = graph.create(pre_symbol(), {input, self}, 1);
    pre->output()->setType(input->type());
    graph.prependNode(pre);
    input->replaceAllUsesAfterNodeWith(pre, pre->output());
  } else {
    graph.prependNode(graph.create(pre_symbol(), {self}, 0));
  }
  Value* const output = graph.outputs()[0];
  Node* const post = graph.create(post_symbol(), {output, self}, 1);
  post->output()->setType(output->type());
  graph.appendNode(post);
  graph.return_node()->replaceInput(0, post->output());
  graph.lint();
}

// Whether the method, or a method that it calls, forks. Walks the graphs as
// they are, since LibTorch's inliner would cache them without hook points.
bool forks(const Block& block, std::set<const GraphFunction*>* visited);

bool forks(GraphFunction* function, std::set<const GraphFunction*>* visited) {
  return function != nullptr && visited->insert(function).second &&
         forks(*function->graph()->block(), visited);
}

GraphFunction* called_function(const Node& node) {
  if (node.kind() == c10::prim::CallFunction) {
    const auto type = node.input(0)->type()->cast<c10::FunctionType>();
    return type ? torch::jit::tryToGraphFunction(*type->function()) : nullptr;
  }
  if (node.kind() == c10::prim::CallMethod) {
    const auto type = node.input(0)->type()->cast<c10::ClassType>();
    auto* const method =
        type ? type->findMethod(node.s(c10::attr::name)) : nullptr;
    return method ? torch::jit::tryToGraphFunction(*method) : nullptr;
  }
  return nullptr;
}

bool forks(const Block& block, std::set<const GraphFunction*>* visited) {
  for (const Node* node : block.nodes()) {
    if (node->kind() == c10::prim::fork) return true;
    if (forks(called_function(*node), visited)) return true;
    for (const Block* inner : node->blocks()) {
      if (forks(*inner, visited)) return true;
    }
  }
  return false;
}

// From the last to the first: blocks come after the component that calls them,
// and are the better name.
absl::Status check_no_fork(const std::vector<HookTarget>& targets) {
  for (auto target = targets.rbegin(); target != targets.rend(); ++target) {
    for (GraphFunction* method : methods_of(target->module)) {
      std::set<const GraphFunction*> visited;
      if (!forks(method, &visited)) continue;
      return absl::UnimplementedError(
          absl::StrCat(target->path, ".", method->name(),
                       ": uses torch.jit.fork, which a component must not"));
    }
  }
  return absl::OkStatus();
}

// A graph whose optimized copy, cached at its first run, lacks hook points ran
// before they came.
absl::Status check_not_run(const std::vector<HookTarget>& targets) {
  for (const HookTarget& target : targets) {
    for (GraphFunction* method : methods_of(target.module)) {
      if (has_hook_points(*method->optimized_graph())) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(target.path, ".", method->name(),
                       ": ran before hook points were inserted"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status check_no_hook_points(const torch::jit::Module& root) {
  const auto unit = root._ivalue()->compilation_unit();
  for (torch::jit::Function* const function : unit->get_functions()) {
    auto* const code = torch::jit::tryToGraphFunction(*function);
    if (code == nullptr || !calls_hooks(*code->graph()->block())) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        function->qualname().qualifiedName(), ": calls ",
        pre_symbol().toQualString(), " or ", post_symbol().toQualString(),
        ", which no archive may: they are inserted when it is loaded"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<HookPoints>> HookPoints::insert(
    const std::vector<HookTarget>& targets) {
  RETURN_IF_ERROR(check_no_fork(targets));
  for (const HookTarget& target : targets) {
    for (GraphFunction* method : methods_of(target.module)) {
      if (!has_hook_points(*method->graph())) insert_into(*method->graph());
    }
  }
  RETURN_IF_ERROR(check_not_run(targets));
  return std::unique_ptr<HookPoints>(new HookPoints(targets));
}

HookPoints::HookPoints(const std::vector<HookTarget>& targets) {
  for (const HookTarget& target : targets) {
    modules_.push_back(target.module._ivalue());
    HookTable::get().add(target.module._ivalue().get(), target.hooks);
  }
}

HookPoints::~HookPoints() {
  for (const auto& module : modules_) HookTable::get().remove(module.get());
}

}  // namespace ferry
