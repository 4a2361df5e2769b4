#include "tests/offload/trace_program.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tests/offload/load_program.h"

namespace ferry {
namespace {

using torch::jit::Module;
using torch::jit::Stack;
using Unit = std::shared_ptr<torch::jit::CompilationUnit>;

// Paths of the modules that are traced on this thread, by their objects, as
// the tracer writes them: "__module.transformer.blocks.0".
using Paths = std::map<const void*, std::string>;
thread_local const Paths* traced_paths = nullptr;

// What runs between these two belongs to the graph of the module. Python's
// tracer does the same around each call of a module.
void enter_module(Stack& stack) {
  const c10::IValue module = torch::jit::pop(stack);
  torch::jit::tracer::getTracingState()->graph->push_scope(
      traced_paths->at(&module.toObjectRef()));
}

void leave_module(Stack& /*stack*/) {
  torch::jit::tracer::getTracingState()->graph->pop_scope();
}

const torch::jit::RegisterOperators kRegisterOperators({
    torch::jit::Operator("ferry_tests::enter_module(Any module) -> ()",
                         enter_module, c10::AliasAnalysisKind::CONSERVATIVE),
    torch::jit::Operator("ferry_tests::leave_module() -> ()", leave_module,
                         c10::AliasAnalysisKind::CONSERVATIVE),
});

void mark_modules(const Module& root) {
  std::set<const torch::jit::Function*> marked;
  for (const Module& module : root.modules()) {
    const auto forward = module.find_method("forward");
    if (!forward || !marked.insert(&forward->function()).second) continue;
    const auto graph = forward->graph();
    graph->prependNode(
        graph->create(c10::Symbol::fromQualString("ferry_tests::enter_module"),
                      {graph->inputs()[0]}, 0));
    graph->appendNode(graph->create(
        c10::Symbol::fromQualString("ferry_tests::leave_module"), 0));
  }
}

bool holds_tensors(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::TensorType) return true;
  for (const c10::TypePtr& inner : type.containedTypes()) {
    if (holds_tensors(*inner)) return true;
  }
  return false;
}

// A module without methods that holds the same tensors, as far as they are
// parameters and buffers, and declares the same.
Module mirror(const Module& module, const std::string& path, const Unit& unit,
              Paths* paths) {
  (*paths)[module._ivalue().get()] = path;
  const c10::ClassType& type = *module.type();
  Module made(c10::QualifiedName(
                  absl::StrCat("__torch__.traced.", type.name()->name())),
              unit, /*shouldMangle=*/true);
  for (size_t i = 0; i < type.numAttributes(); ++i) {
    const std::string& name = type.getAttributeName(i);
    const c10::IValue value = module.attr(name);
    if (value.isModule()) {
      made.register_module(
          name,
          mirror(value.toModule(), absl::StrCat(path, ".", name), unit, paths));
    } else if (type.is_parameter(i) || type.is_buffer(i)) {
      made.register_parameter(name, value.toTensor(), type.is_buffer(i));
    } else if (!holds_tensors(*type.getAttribute(i))) {
      made.register_attribute(name, type.getAttribute(i), value);
    }
  }
  return made;
}

// What the storages of the tensors hold that a module has as attributes.
class KeptBytes {
 public:
  explicit KeptBytes(const Module& module) {
    for (const c10::IValue& value : module.attributes()) {
      if (value.isTensor()) keep(value.toTensor());
    }
  }

  void restore() const {
    for (const auto& [storage, bytes] : kept_) {
      std::memcpy(storage.mutable_data(), bytes.data(), bytes.size());
    }
  }

 private:
  void keep(const at::Tensor& tensor) {
    const c10::Storage& storage = tensor.storage();
    kept_.emplace_back(storage,
                       std::string(static_cast<const char*>(storage.data()),
                                   storage.nbytes()));
  }

  std::vector<std::pair<c10::Storage, std::string>> kept_;
};

void trace_method(const Module& scripted, const std::string& name,
                  const Stack& inputs, const std::vector<std::string>& names,
                  Module* traced) {
  const auto recorded = torch::jit::tracer::trace(
      inputs,
      [&](const Stack& values) {
        return Stack{scripted.get_method(name)(values)};
      },
      [](const torch::autograd::Variable&) { return std::string(); },
      /*strict=*/true, /*force_outplace=*/false, traced, names);
  traced->type()->addMethod(
      traced->_ivalue()->compilation_unit()->create_function(
          c10::QualifiedName(*traced->type()->name(), name),
          recorded.first->graph));
}

}  // namespace

std::string trace_program(const RandomProgram& program) {
  const c10::AutoGradMode no_grad(false);
  const Module scripted = load_program(program);
  Paths paths;
  Module traced =
      mirror(scripted, "__module",
             std::make_shared<torch::jit::CompilationUnit>(), &paths);
  const KeptBytes values(scripted);
  mark_modules(scripted);
  traced_paths = &paths;
  const absl::Cleanup forget = [] { traced_paths = nullptr; };
  const at::Tensor x = at::randn({2, kProgramWidth});
  trace_method(scripted, "encode", {x.clone()}, {"x"}, &traced);
  trace_method(scripted, "denoise", {x.clone(), at::scalar_tensor(500.)},
               {"x", "level"}, &traced);
  trace_method(scripted, "decode", {x.clone()}, {"x"}, &traced);
  values.restore();
  std::ostringstream archive;
  traced.save(archive);
  return archive.str();
}

}  // namespace ferry
