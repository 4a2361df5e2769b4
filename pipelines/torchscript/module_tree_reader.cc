#include "pipelines/torchscript/module_tree_reader.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "offload/violations.h"

namespace ferry {
namespace {

using torch::jit::Module;

using Names = std::vector<std::string>;

bool is_string_list(const c10::IValue& value) {
  return value.isList() &&
         value.toList().elementType()->kind() == c10::TypeKind::StringType;
}

bool read(const c10::IValue& value, Names* out) {
  if (!is_string_list(value)) return false;
  for (const c10::IValue& item : value.toListRef()) {
    out->push_back(item.toStringRef());
  }
  return true;
}

bool read(const c10::IValue& value, std::set<std::string>* out) {
  Names names;
  if (!read(value, &names)) return false;
  out->insert(names.begin(), names.end());
  return true;
}

bool read(const c10::IValue& value, std::string* out) {
  if (!value.isString()) return false;
  *out = value.toStringRef();
  return true;
}

bool read(const c10::IValue& value, bool* out) {
  if (!value.isBool()) return false;
  *out = value.toBool();
  return true;
}

template <typename T>
bool read(const c10::IValue& value, std::map<std::string, T>* out) {
  if (!value.isGenericDict()) return false;
  for (const auto& entry : value.toGenericDict()) {
    if (!entry.key().isString() ||
        !read(entry.value(), &(*out)[entry.key().toStringRef()])) {
      return false;
    }
  }
  return true;
}

const char* type_name(const Names*) { return "List[str]"; }
const char* type_name(const std::set<std::string>*) { return "List[str]"; }
const char* type_name(const bool*) { return "bool"; }
const char* type_name(const std::map<std::string, std::string>*) {
  return "Dict[str, str]";
}
const char* type_name(const std::map<std::string, Names>*) {
  return "Dict[str, List[str]]";
}

// Whether it is a ModuleList or Sequential: children 0, 1, 2 … and nothing
// else. Type names tell of empty ones only: tracing and mangling change them.
bool is_list(const Module& module, const ModuleNode& node) {
  if (node.children.empty()) {
    const std::string name = module.type()->name()->name();
    return name.find("ModuleList") != std::string::npos ||
           name.find("Sequential") != std::string::npos;
  }
  for (size_t i = 0; i < node.children.size(); ++i) {
    if (node.children[i].first != absl::StrCat(i)) return false;
  }
  return node.tensors.empty();
}

// The tensors of a constant; none of other nodes.
std::vector<at::Tensor> constant_tensors(const torch::jit::Node& node) {
  using torch::jit::AttributeKind;
  namespace attr = torch::jit::attr;
  if (node.kind() != torch::jit::prim::Constant ||
      !node.hasAttribute(attr::value)) {
    return {};
  }
  const AttributeKind kind = node.kindOf(attr::value);
  if (kind == AttributeKind::t) return {node.t(attr::value)};
  if (kind == AttributeKind::ts) return node.ts(attr::value);
  return {};
}

// Does the work of read_module_tree().
class Reader {
 public:
  absl::StatusOr<TorchscriptTree> run(const Module& root) {
    add_module(root, "");
    read_declarations(root);
    if (!violations_.empty()) return violations_.status();
    return std::move(result_);
  }

 private:
  // Reads an attribute into `out`; false when the module has none.
  template <typename T>
  bool read_attribute(const Module& module, const std::string& prefix,
                      const std::string& attribute, T* out) {
    if (!module.hasattr(attribute)) return false;
    if (!read(module.attr(attribute), out)) {
      violations_.add(prefix, attribute, ": must be ", type_name(out));
    }
    return true;
  }

  void read_declarations(const Module& root) {
    SupportsComponentDiscovery declared;
    bool is_declared = false;
    is_declared |=
        read_attribute(root, "", "_dit_modules", &declared.dit_modules);
    is_declared |=
        read_attribute(root, "", "_encoder_modules", &declared.encoder_modules);
    is_declared |=
        read_attribute(root, "", "_vae_modules", &declared.vae_modules);
    is_declared |= read_attribute(root, "", "_resident_modules",
                                  &declared.resident_modules);
    if (is_declared) result_.tree.declarations = std::move(declared);
    if (!root.hasattr("_offload_plan")) return;
    const c10::IValue value = root.attr("_offload_plan");
    if (!value.isModule()) {
      violations_.add("_offload_plan: must be a submodule");
      return;
    }
    result_.tree.plan = read_plan(value.toModule());
  }

  OffloadPlan read_plan(const Module& module) {
    const std::string prefix = "_offload_plan.";
    OffloadPlan plan;
    read_attribute(module, prefix, "block_attrs", &plan.block_attrs);
    read_attribute(module, prefix, "offload_submodules",
                   &plan.offload_submodules);
    read_attribute(module, prefix, "resident_dit_paths",
                   &plan.resident_dit_paths);
    read_attribute(module, prefix, "encoder_component_types",
                   &plan.encoder_component_types);
    read_attribute(module, prefix, "encoder_block_attrs",
                   &plan.encoder_block_attrs);
    read_attribute(module, prefix, "encoder_dlo_weight_replication",
                   &plan.encoder_dlo_weight_replication);
    read_attribute(module, prefix, "on_demand_component_paths",
                   &plan.on_demand_component_paths);
    return plan;
  }

  // `prefix` is the module's path with its dot. Returns the node's index.
  size_t add_module(const Module& module, const std::string& prefix) {
    const auto [known, is_new] =
        modules_.emplace(module._ivalue().get(), result_.modules.size());
    if (!is_new) return known->second;
    const size_t index = known->second;
    result_.modules.push_back(module);
    result_.tree.nodes.emplace_back();
    ModuleNode node;
    const auto type = module.type();
    for (size_t slot = 0; slot < type->numAttributes(); ++slot) {
      const std::string& name = type->getAttributeName(slot);
      const c10::IValue& value = module._ivalue()->getSlot(slot);
      if (value.isModule()) {
        if (prefix.empty() && name == "_offload_plan") continue;
        node.children.emplace_back(
            name,
            add_module(value.toModule(), absl::StrCat(prefix, name, ".")));
      } else if (!value.isNone()) {
        node.other_attributes.insert(name);
        prefix_ = prefix;
        add_tensors(name, value, type->is_parameter(slot), &node);
      }
    }
    node.is_list = is_list(module, node);
    add_constants(module, &node);
    read_flags(module, prefix, &node);
    result_.tree.nodes[index] = std::move(node);
    return index;
  }

  void read_flags(const Module& module, const std::string& prefix,
                  ModuleNode* node) {
    Names names;
    if (read_attribute(module, prefix, "_layerwise_offload_blocks_attrs",
                       &names)) {
      node->blocks_attrs = std::move(names);
    }
    const std::string deprecated = "_layerwise_offload_blocks_attr";
    if (module.hasattr(deprecated)) {
      const c10::IValue value = module.attr(deprecated);
      node->deprecated_blocks_attr.emplace();
      if (value.isString()) {
        node->deprecated_blocks_attr->push_back(value.toStringRef());
      } else if (!read(value, &*node->deprecated_blocks_attr)) {
        violations_.add(prefix, deprecated, ": must be str or List[str]");
      }
    }
    read_attribute(module, prefix, "_on_demand_lifecycle",
                   &node->on_demand_lifecycle);
    read_attribute(module, prefix, "_is_loaded", &node->is_loaded);
  }

  // Adds every tensor that a value is or contains.
  void add_tensors(const std::string& name, const c10::IValue& value,
                   bool is_parameter, ModuleNode* node) {
    if (value.isTensor()) {
      add_tensor(name, value.toTensor(), is_parameter, "", node);
    } else if (value.isCustomClass()) {
      if (opaque_.insert(&value.toObjectRef()).second) {
        result_.opaque.push_back(absl::StrCat(prefix_, name));
      }
    } else if (value.isTensorList() || value.isList()) {
      if (!may_hold_tensors(*value.toList().elementType())) return;
      size_t index = 0;
      for (const c10::IValue& item : value.toList().vec()) {
        add_tensors(absl::StrCat(name, "[", index++, "]"), item, false, node);
      }
    } else if (value.isTuple()) {
      size_t index = 0;
      for (const c10::IValue& item : value.toTupleRef().elements()) {
        add_tensors(absl::StrCat(name, "[", index++, "]"), item, false, node);
      }
    } else if (value.isGenericDict()) {
      for (const auto& entry : value.toGenericDict()) {
        add_tensors(absl::StrCat(name, "[", key_text(entry.key()), "]"),
                    entry.value(), false, node);
      }
    } else if (value.isObject() && !value.isModule()) {
      add_object(name, *value.toObject(), node);
    }
  }

  void add_object(const std::string& name, const c10::ivalue::Object& object,
                  ModuleNode* node) {
    // Objects may refer to each other in circles.
    if (!open_objects_.insert(&object).second) return;
    const auto type = object.type();
    for (size_t slot = 0; slot < type->numAttributes(); ++slot) {
      add_tensors(absl::StrCat(name, ".", type->getAttributeName(slot)),
                  object.getSlot(slot), false, node);
    }
    open_objects_.erase(&object);
  }

  static bool may_hold_tensors(const c10::Type& element) {
    switch (element.kind()) {
      case c10::TypeKind::IntType:
      case c10::TypeKind::FloatType:
      case c10::TypeKind::BoolType:
      case c10::TypeKind::StringType:
        return false;
      default:
        return true;
    }
  }

  static std::string key_text(const c10::IValue& key) {
    if (key.isString()) return key.toStringRef();
    if (key.isInt()) return absl::StrCat(key.toInt());
    return "…";
  }

  // Tracing bakes plain attributes into the graph.
  void add_constants(const Module& module, ModuleNode* node) {
    for (const torch::jit::Method& method : module.get_methods()) {
      size_t count = 0;
      add_constants(*method.graph()->block(), method.name(), &count, node);
    }
  }

  void add_constants(const torch::jit::Block& block, const std::string& method,
                     size_t* count, ModuleNode* node) {
    for (const torch::jit::Node* graph_node : block.nodes()) {
      for (const at::Tensor& tensor : constant_tensors(*graph_node)) {
        if (tensor.dim() == 0) continue;
        add_tensor(absl::StrCat(method, "#", (*count)++), tensor, false,
                   absl::StrCat("is a constant of ", method), node);
      }
      for (const torch::jit::Block* inner : graph_node->blocks()) {
        add_constants(*inner, method, count, node);
      }
    }
  }

  void add_tensor(const std::string& name, const at::Tensor& tensor,
                  bool is_parameter, const std::string& reason,
                  ModuleNode* node) {
    if (!tensor.defined()) return;
    ModuleTensor entry;
    entry.name = name;
    entry.identity = id_of(tensor.unsafeGetTensorImpl());
    result_.tensors.emplace(entry.identity, tensor);
    entry.bytes =
        tensor.numel() * static_cast<int64_t>(tensor.dtype().itemsize());
    entry.is_parameter = is_parameter;
    entry.resident_reason = reason;
    if (tensor.has_storage() && tensor.numel() > 0 && !tensor.is_meta()) {
      entry.storage = id_of(tensor.storage().unsafeGetStorageImpl());
      entry.storage_bytes = static_cast<int64_t>(tensor.storage().nbytes());
    }
    node->tensors.push_back(std::move(entry));
  }

  // Numbers objects in the order in which they are met.
  int64_t id_of(const void* object) {
    return ids_.emplace(object, static_cast<int64_t>(ids_.size()))
        .first->second;
  }

  TorchscriptTree result_;
  Violations violations_;
  std::map<const void*, size_t> modules_;
  // Path, with its dot, of the module whose attributes are being read.
  std::string prefix_;
  // Objects of custom classes; each is named once.
  std::set<const void*> opaque_;
  // Those that are being read.
  std::set<const void*> open_objects_;
  std::map<const void*, int64_t> ids_;
};

}  // namespace

absl::StatusOr<TorchscriptTree> read_module_tree(const Module& root) {
  return Reader().run(root);
}

}  // namespace ferry
