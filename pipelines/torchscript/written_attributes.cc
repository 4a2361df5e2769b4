#include "pipelines/torchscript/written_attributes.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "offload/module_tree.h"

namespace ferry {
namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

bool is_container(const c10::Type& type) {
  return type.kind() == c10::TypeKind::ListType ||
         type.kind() == c10::TypeKind::DictType;
}

// A list or dict that is made where it is changed is no attribute's.
bool is_new(const Value& container) {
  const c10::Symbol kind = container.node()->kind();
  return kind == c10::prim::ListConstruct || kind == c10::prim::DictConstruct;
}

// What all code of a pipeline writes, by what.
class Writes {
 public:
  void read(torch::jit::CompilationUnit& unit) {
    if (!units_.insert(&unit).second) return;
    for (torch::jit::Function* const function : unit.get_functions()) {
      auto* const code = torch::jit::tryToGraphFunction(*function);
      if (code == nullptr) continue;
      read(*code->graph()->block(), function->name());
    }
  }

  // By what an attribute of a class is set, or null.
  const std::string* setter(const c10::ClassType& type,
                            const std::string& name) const {
    const auto found = attributes_.find({type.name()->qualifiedName(), name});
    return found == attributes_.end() ? nullptr : &found->second;
  }

  // By what a list or dict of a type is changed, or null.
  const std::string* changer(const c10::Type& type) const {
    const auto found = containers_.find(type.annotation_str());
    return found == containers_.end() ? nullptr : &found->second;
  }

 private:
  void read(const Block& block, const std::string& function) {
    for (const Node* node : block.nodes()) {
      for (const Block* inner : node->blocks()) read(*inner, function);
      if (node->kind() == c10::prim::SetAttr) {
        read_setter(*node, function);
      } else if (const c10::FunctionSchema* schema = node->maybeSchema()) {
        read_operator(*node, *schema, function);
      }
    }
  }

  void read_setter(const Node& node, const std::string& function) {
    const auto type = node.input(0)->type()->cast<c10::ClassType>();
    if (type == nullptr) return;
    attributes_.emplace(
        std::pair(type->name()->qualifiedName(), node.s(c10::attr::name)),
        text(node, function));
  }

  void read_operator(const Node& node, const c10::FunctionSchema& schema,
                     const std::string& function) {
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const Value& input = *node.input(i);
      if (!is_container(*input.type()) || is_new(input)) continue;
      if (i >= schema.arguments().size()) return;
      const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      containers_.emplace(input.type()->annotation_str(), text(node, function));
    }
  }

  static std::string text(const Node& node, const std::string& function) {
    return absl::StrCat("written by ", node.kind().toQualString(), " in ",
                        function);
  }

  std::set<const void*> units_;
  std::map<std::pair<std::string, std::string>, std::string> attributes_;
  std::map<std::string, std::string> containers_;
};

// Walks the attributes of one module.
class Annotator {
 public:
  Annotator(const Writes& writes, ModuleNode* node)
      : writes_(writes), node_(*node) {}

  void visit_attributes(const c10::ivalue::Object& object,
                        const std::string& prefix) {
    if (!open_.insert(&object).second) return;
    const auto type = object.type();
    for (size_t slot = 0; slot < type->numAttributes(); ++slot) {
      const c10::IValue& value = object.getSlot(slot);
      if (value.isModule()) continue;
      const std::string& attribute = type->getAttributeName(slot);
      const std::string name = absl::StrCat(prefix, attribute);
      if (const std::string* by = writes_.setter(*type, attribute)) {
        node_.written_attributes.emplace(name, *by);
      }
      visit(name, value, *type->getAttribute(slot));
    }
  }

 private:
  // `type` is what code knows of the value.
  void visit(const std::string& name, const c10::IValue& value,
             const c10::Type& type) {
    if (value.isList() || value.isGenericDict()) {
      if (const std::string* by = writes_.changer(type)) {
        node_.written_attributes.emplace(name, *by);
      }
      visit_items(name, value);
    } else if (value.isTuple()) {
      size_t index = 0;
      for (const c10::IValue& item : value.toTupleRef().elements()) {
        visit(absl::StrCat(name, "[", index++, "]"), item, *item.type());
      }
    } else if (value.isObject() && !value.isCustomClass()) {
      visit_attributes(*value.toObject(), absl::StrCat(name, "."));
    }
  }

  void visit_items(const std::string& name, const c10::IValue& value) {
    size_t index = 0;
    const auto visit_item = [&](const c10::IValue& item) {
      // Numbers, strings and tensors tell nothing more.
      if (item.isPtrType() && !item.isTensor() && !item.isString()) {
        visit(absl::StrCat(name, "[", index, "]"), item, *item.type());
      }
      ++index;
    };
    if (value.isList()) {
      for (const c10::IValue& item : value.toListRef()) visit_item(item);
      return;
    }
    for (const auto& entry : value.toGenericDict()) visit_item(entry.value());
  }

  const Writes& writes_;
  ModuleNode& node_;
  // Objects may refer to each other in circles.
  std::set<const void*> open_;
};

}  // namespace

void find_written_attributes(TorchscriptTree* tree) {
  Writes writes;
  for (const torch::jit::Module& module : tree->modules) {
    writes.read(*module._ivalue()->compilation_unit());
  }
  for (size_t i = 0; i < tree->modules.size(); ++i) {
    Annotator(writes, &tree->tree.nodes[i])
        .visit_attributes(*tree->modules[i]._ivalue(), "");
  }
}

}  // namespace ferry
