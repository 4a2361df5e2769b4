#include "pipelines/torchscript/component_discovery.h"

#include <ATen/core/ivalue.h>

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

using torch::jit::Module;

using Names = std::vector<std::string>;
using BlockAttributes = std::map<std::string, Names>;

struct RoleDeclaration {
  ComponentRole role;
  const char* attribute;
  // Looked for when the pipeline declares nothing.
  Names well_known;
};

const std::vector<RoleDeclaration>& role_declarations() {
  static const auto* const declarations = new std::vector<RoleDeclaration>{
      {ComponentRole::kDit,
       "_dit_modules",
       {"transformer", "transformer_2", "dit", "sr_dit", "language_model",
        "transformer_blocks", "model"}},
      {ComponentRole::kTextEncoder,
       "_encoder_modules",
       {"text_encoder", "text_encoder_2", "text_encoder_3", "image_encoder",
        "vision_encoder", "mllm"}},
      {ComponentRole::kVae,
       "_vae_modules",
       {"vae", "audio_vae", "sound_tokenizer"}},
      {ComponentRole::kResident, "_resident_modules", {}},
  };
  return *declarations;
}

absl::Status wrong_type(absl::string_view attribute,
                        absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(attribute, ": must be ", expected));
}

bool is_string_list(const c10::IValue& value) {
  return value.isList() &&
         value.toList().elementType()->kind() == c10::TypeKind::StringType;
}

Names to_names(const c10::IValue& value) {
  Names names;
  for (const c10::IValue& item : value.toListRef()) {
    names.push_back(item.toStringRef());
  }
  return names;
}

// Nothing when the module has no such attribute.
absl::StatusOr<std::optional<Names>> read_names(const Module& module,
                                                const std::string& attribute) {
  if (!module.hasattr(attribute)) return std::optional<Names>();
  const c10::IValue value = module.attr(attribute);
  if (!is_string_list(value)) return wrong_type(attribute, "List[str]");
  return std::optional<Names>(to_names(value));
}

// Empty when the plan has no such attribute.
absl::StatusOr<BlockAttributes> read_block_attributes(
    const Module& plan, const std::string& attribute) {
  BlockAttributes attributes;
  if (!plan.hasattr(attribute)) return attributes;
  const c10::IValue value = plan.attr(attribute);
  const std::string name = absl::StrCat("_offload_plan.", attribute);
  if (!value.isGenericDict()) return wrong_type(name, "Dict[str, List[str]]");
  for (const auto& entry : value.toGenericDict()) {
    if (!entry.key().isString() || !is_string_list(entry.value())) {
      return wrong_type(name, "Dict[str, List[str]]");
    }
    attributes[entry.key().toStringRef()] = to_names(entry.value());
  }
  return attributes;
}

// What lies at a dotted path; nothing when a part of it is missing.
std::optional<c10::IValue> find_value(const Module& root,
                                      absl::string_view path) {
  c10::IValue value = root._ivalue();
  for (absl::string_view part : absl::StrSplit(path, '.')) {
    if (!value.isModule()) return std::nullopt;
    const Module module = value.toModule();
    if (!module.hasattr(std::string(part))) return std::nullopt;
    value = module.attr(std::string(part));
  }
  return value;
}

// Whether it is a ModuleList or Sequential: children 0, 1, 2 … and nothing
// else. Type names do not tell: tracing and mangling change them.
bool is_container(const Module& module) {
  size_t index = 0;
  for (const auto& child : module.named_children()) {
    if (child.name != absl::StrCat(index)) return false;
    ++index;
  }
  return index > 0 && module.named_parameters(false).size() == 0 &&
         module.named_buffers(false).size() == 0;
}

// Does the work of discover_components().
class Discoverer {
 public:
  explicit Discoverer(const Module& root) : root_(root) {}

  absl::StatusOr<Discovery> run() {
    RETURN_IF_ERROR(find_components());
    if (discovery_.components.empty() ||
        discovery_.components.front().role != ComponentRole::kDit) {
      return absl::InvalidArgumentError(
          "_dit_modules: names no diffusion transformer of the root module; "
          "declare it as List[str] of dotted paths");
    }
    RETURN_IF_ERROR(read_plan());
    for (DiscoveredComponent& component : discovery_.components) {
      if (component.role == ComponentRole::kDit) {
        RETURN_IF_ERROR(find_dit_blocks(&component));
      } else if (component.role == ComponentRole::kTextEncoder) {
        RETURN_IF_ERROR(find_encoder_blocks(&component));
      }
    }
    return std::move(discovery_);
  }

 private:
  absl::Status find_components() {
    bool declared = false;
    for (const RoleDeclaration& role : role_declarations()) {
      ASSIGN_OR_RETURN(const auto names, read_names(root_, role.attribute));
      if (!names) continue;
      declared = true;
      for (const std::string& path : *names) add_declared(role, path);
    }
    if (declared) return absl::OkStatus();
    warn(
        "declares no components (_dit_modules and so on); those with "
        "well-known names are used, which is deprecated");
    for (const RoleDeclaration& role : role_declarations()) {
      for (const std::string& path : role.well_known) {
        const auto value = find_value(root_, path);
        if (value && value->isModule()) add(role, path, value->toModule());
      }
    }
    return absl::OkStatus();
  }

  void add_declared(const RoleDeclaration& role, const std::string& path) {
    const auto value = find_value(root_, path);
    if (!value || value->isNone()) {
      warn(absl::StrCat(role.attribute, ": \"", path,
                        "\" does not exist and is skipped"));
    } else if (!value->isModule()) {
      warn(absl::StrCat(role.attribute, ": \"", path,
                        "\" is no module and is skipped"));
    } else {
      add(role, path, value->toModule());
    }
  }

  // A module that is named twice keeps its first name and role.
  void add(const RoleDeclaration& role, const std::string& path,
           const Module& module) {
    if (!component_objects_.insert(module._ivalue().get()).second) return;
    discovery_.components.push_back({path, module, role.role, {}});
  }

  absl::Status read_plan() {
    const auto plan = find_value(root_, "_offload_plan");
    if (!plan) return absl::OkStatus();
    if (!plan->isModule()) return wrong_type("_offload_plan", "a submodule");
    ASSIGN_OR_RETURN(block_attrs_,
                     read_block_attributes(plan->toModule(), "block_attrs"));
    ASSIGN_OR_RETURN(
        encoder_block_attrs_,
        read_block_attributes(plan->toModule(), "encoder_block_attrs"));
    warn_of_strangers("block_attrs", block_attrs_, ComponentRole::kDit);
    warn_of_strangers("encoder_block_attrs", encoder_block_attrs_,
                      ComponentRole::kTextEncoder);
    return absl::OkStatus();
  }

  void warn_of_strangers(absl::string_view attribute,
                         const BlockAttributes& attributes,
                         ComponentRole role) {
    for (const auto& [path, unused] : attributes) {
      bool known = false;
      for (const DiscoveredComponent& component : discovery_.components) {
        known |= component.role == role && component.path == path;
      }
      if (known) continue;
      warn(absl::StrCat("_offload_plan.", attribute, ": \"", path,
                        "\" is no component of role ", to_string(role)));
    }
  }

  // The plan's containers, else the component's own declaration.
  absl::StatusOr<Names> dit_containers(const DiscoveredComponent& component) {
    const auto planned = block_attrs_.find(component.path);
    if (planned != block_attrs_.end()) return planned->second;
    ASSIGN_OR_RETURN(
        const auto names,
        read_names(component.module, "_layerwise_offload_blocks_attrs"));
    if (names) return *names;
    const std::string deprecated = "_layerwise_offload_blocks_attr";
    if (!component.module.hasattr(deprecated)) return Names();
    warn(absl::StrCat(component.path, ".", deprecated, ": is deprecated; use ",
                      deprecated, "s"));
    const c10::IValue value = component.module.attr(deprecated);
    if (value.isString()) return Names{value.toStringRef()};
    if (is_string_list(value)) return to_names(value);
    return wrong_type(absl::StrCat(component.path, ".", deprecated),
                      "str or List[str]");
  }

  absl::Status find_dit_blocks(DiscoveredComponent* component) {
    ASSIGN_OR_RETURN(const Names containers, dit_containers(*component));
    std::vector<ModuleAtPath> stack;
    for (const std::string& container : containers) {
      const std::string path = absl::StrCat(component->path, ".", container);
      const auto value = find_value(component->module, container);
      if (!value) {
        return absl::InvalidArgumentError(absl::StrCat(
            path, ": does not exist, but is declared to hold blocks"));
      }
      if (!value->isModule()) {
        warn(absl::StrCat(path, ": is no module and is skipped"));
        continue;
      }
      const Module module = value->toModule();
      if (!is_container(module)) {
        warn(absl::StrCat(path, ": is no ModuleList and taken as one block"));
        RETURN_IF_ERROR(claim({path, module}, &stack));
        continue;
      }
      RETURN_IF_ERROR(claim_children({path, module}, &stack));
    }
    if (!stack.empty()) component->stacks.push_back(std::move(stack));
    return absl::OkStatus();
  }

  absl::Status find_encoder_blocks(DiscoveredComponent* component) {
    const auto planned = encoder_block_attrs_.find(component->path);
    if (planned == encoder_block_attrs_.end()) return absl::OkStatus();
    for (const std::string& container : planned->second) {
      const std::string path = absl::StrCat(component->path, ".", container);
      const auto value = find_value(component->module, container);
      if (!value || !value->isModule() || !is_container(value->toModule()) ||
          value->toModule().children().size() < 2) {
        warn(absl::StrCat(path,
                          ": is no list of two or more modules; its blocks "
                          "cannot be streamed"));
        continue;
      }
      std::vector<ModuleAtPath> stack;
      RETURN_IF_ERROR(claim_children({path, value->toModule()}, &stack));
      component->stacks.push_back(std::move(stack));
    }
    return absl::OkStatus();
  }

  absl::Status claim_children(const ModuleAtPath& container,
                              std::vector<ModuleAtPath>* stack) {
    for (const auto& child : container.module.named_children()) {
      RETURN_IF_ERROR(claim(
          {absl::StrCat(container.path, ".", child.name), child.value}, stack));
    }
    return absl::OkStatus();
  }

  absl::Status claim(ModuleAtPath block, std::vector<ModuleAtPath>* stack) {
    const auto [claimed, is_new] =
        claims_.emplace(block.module._ivalue().get(), block.path);
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat(
          block.path, ": is a block already, as ", claimed->second));
    }
    stack->push_back(std::move(block));
    return absl::OkStatus();
  }

  void warn(std::string warning) {
    discovery_.warnings.push_back(std::move(warning));
  }

  const Module root_;
  Discovery discovery_;
  std::set<const void*> component_objects_;
  BlockAttributes block_attrs_;
  BlockAttributes encoder_block_attrs_;
  // Block objects and the paths that claimed them.
  std::map<const void*, std::string> claims_;
};

}  // namespace

absl::StatusOr<Discovery> discover_components(const Module& root) {
  return Discoverer(root).run();
}

int64_t count_bytes(const Module& module) {
  std::set<const void*> seen;
  int64_t bytes = 0;
  const auto count = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    const auto& storage = tensor.storage();
    if (seen.insert(storage.unsafeGetStorageImpl()).second) {
      bytes += static_cast<int64_t>(storage.nbytes());
    }
  };
  for (const at::Tensor& parameter : module.parameters()) count(parameter);
  for (const at::Tensor& buffer : module.buffers()) count(buffer);
  return bytes;
}

}  // namespace ferry
