#include "offload/module_discovery.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "offload/violations.h"

namespace ferry {
namespace {

using Kind = ModuleLookup::Kind;
using Names = std::vector<std::string>;

// A child with more parameters than this owns its residency, declared or not:
// keeping it on the device would defeat streaming.
constexpr int64_t kLargeChildBytes = int64_t{1} << 30;

struct RoleDeclaration {
  ComponentRole role;
  const char* attribute;
  Names SupportsComponentDiscovery::*declared;
  // Looked for when the pipeline declares nothing.
  Names well_known;
};

const std::vector<RoleDeclaration>& role_declarations() {
  using Declared = SupportsComponentDiscovery;
  static const auto* const kDeclarations = new std::vector<RoleDeclaration>{
      {ComponentRole::kDit,
       "_dit_modules",
       &Declared::dit_modules,
       {"transformer", "transformer_2", "dit", "sr_dit", "language_model",
        "transformer_blocks", "model"}},
      {ComponentRole::kTextEncoder,
       "_encoder_modules",
       &Declared::encoder_modules,
       {"text_encoder", "text_encoder_2", "text_encoder_3", "image_encoder",
        "vision_encoder", "mllm"}},
      {ComponentRole::kVae,
       "_vae_modules",
       &Declared::vae_modules,
       {"vae", "audio_vae", "sound_tokenizer"}},
      {ComponentRole::kResident,
       "_resident_modules",
       &Declared::resident_modules,
       {}},
  };
  return *kDeclarations;
}

// Where the blocks of a large child are looked for when nobody says it.
const Names& well_known_containers() {
  static const auto* const kNames =
      new Names{"layers", "blocks", "h", "model.layers"};
  return *kNames;
}

bool has_component(const std::vector<FoundComponent>& components,
                   ComponentRole role, absl::string_view path) {
  return std::any_of(components.begin(), components.end(),
                     [&](const FoundComponent& component) {
                       return component.role == role && component.path == path;
                     });
}

// What the plan says of components that do not exist has no effect.
void warn_of_strangers(const OffloadPlan& plan,
                       const std::vector<FoundComponent>& components,
                       Names* warnings) {
  const auto check = [&](absl::string_view attribute, absl::string_view path,
                         ComponentRole role) {
    if (has_component(components, role, path)) return;
    warnings->push_back(absl::StrCat("_offload_plan.", attribute, ": \"", path,
                                     "\" is no component of role ",
                                     to_string(role)));
  };
  for (const auto& [path, unused] : plan.block_attrs) {
    check("block_attrs", path, ComponentRole::kDit);
  }
  for (const std::string& path : plan.resident_dit_paths) {
    check("resident_dit_paths", path, ComponentRole::kDit);
  }
  for (const auto& [path, unused] : plan.encoder_block_attrs) {
    check("encoder_block_attrs", path, ComponentRole::kTextEncoder);
  }
  for (const auto& [path, unused] : plan.encoder_component_types) {
    check("encoder_component_types", path, ComponentRole::kTextEncoder);
  }
  for (const std::string& path : plan.on_demand_component_paths) {
    if (has_component(components, ComponentRole::kTextEncoder, path)) continue;
    check("on_demand_component_paths", path, ComponentRole::kVae);
  }
}

Names dit_containers(const ModuleTree& tree, const FoundComponent& dit,
                     Names* warnings) {
  if (tree.plan) {
    const auto planned = tree.plan->block_attrs.find(dit.path);
    if (planned != tree.plan->block_attrs.end()) return planned->second;
  }
  const ModuleNode& node = tree.nodes[dit.module];
  if (node.blocks_attrs && !node.blocks_attrs->empty()) {
    return *node.blocks_attrs;
  }
  if (!node.deprecated_blocks_attr) return {};
  warnings->push_back(
      absl::StrCat(dit.path,
                   "._layerwise_offload_blocks_attr: is deprecated; use "
                   "_layerwise_offload_blocks_attrs"));
  return *node.deprecated_blocks_attr;
}

std::vector<FoundBlock> list_items(const ModuleTree& tree, size_t list,
                                   const std::string& path) {
  std::vector<FoundBlock> blocks;
  for (const auto& [name, child] : tree.nodes[list].children) {
    blocks.push_back({absl::StrCat(path, ".", name), child});
  }
  return blocks;
}

}  // namespace

std::vector<FoundComponent> find_components(const ModuleTree& tree,
                                            Names* warnings) {
  std::vector<FoundComponent> components;
  for (const RoleDeclaration& role : role_declarations()) {
    const Names& paths = tree.declarations ? (*tree.declarations).*role.declared
                                           : role.well_known;
    std::set<size_t> seen;
    for (const std::string& path : paths) {
      const ModuleLookup found = tree.find(0, path);
      if (found.kind == Kind::kModule) {
        if (seen.insert(found.module).second) {
          components.push_back({role.role, path, found.module});
        }
      } else if (tree.declarations) {
        warnings->push_back(absl::StrCat(
            role.attribute, ": \"", path, "\" ",
            found.kind == Kind::kMissing ? "does not exist" : "is no module",
            " and is skipped"));
      }
    }
  }
  if (!tree.declarations && !components.empty()) {
    warnings->push_back(
        "declares no components (_dit_modules and so on); those with "
        "well-known names are used, which is deprecated");
  }
  if (tree.plan) warn_of_strangers(*tree.plan, components, warnings);
  return components;
}

absl::StatusOr<DitBlocks> find_dit_blocks(const ModuleTree& tree,
                                          const FoundComponent& dit,
                                          Names* warnings) {
  DitBlocks found{dit_containers(tree, dit, warnings), {}};
  Violations violations;
  for (const std::string& name : found.attributes) {
    const std::string path = absl::StrCat(dit.path, ".", name);
    // A direct attribute: a dotted path names none.
    const ModuleLookup container = name.find('.') == std::string::npos
                                       ? tree.find(dit.module, name)
                                       : ModuleLookup();
    if (container.kind == Kind::kMissing) {
      violations.add(path, ": does not exist, but is declared to hold blocks");
    } else if (container.kind == Kind::kNoModule) {
      warnings->push_back(absl::StrCat(path, ": is no module and is skipped"));
    } else if (!tree.nodes[container.module].is_list) {
      warnings->push_back(
          absl::StrCat(path, ": is no ModuleList and taken as one block"));
      found.blocks.push_back({path, container.module});
    } else {
      for (FoundBlock& block : list_items(tree, container.module, path)) {
        found.blocks.push_back(std::move(block));
      }
    }
  }
  if (!violations.empty()) return violations.status();
  return found;
}

std::optional<std::vector<FoundBlock>> find_block_list(
    const ModuleTree& tree, const FoundComponent& component,
    const std::string& attribute) {
  const ModuleLookup found = tree.find(component.module, attribute);
  if (found.kind != Kind::kModule) return std::nullopt;
  const ModuleNode& list = tree.nodes[found.module];
  if (!list.is_list || list.children.size() < 2) return std::nullopt;
  return list_items(tree, found.module,
                    absl::StrCat(component.path, ".", attribute));
}

std::vector<FoundChild> find_dit_children(
    const ModuleTree& tree, const FoundComponent& dit,
    const DitBlocks& dit_blocks, const std::vector<FoundComponent>& components,
    Names* warnings) {
  std::vector<FoundChild> children;
  const Names& block_attributes = dit_blocks.attributes;
  for (const auto& [name, module] : tree.nodes[dit.module].children) {
    if (std::find(block_attributes.begin(), block_attributes.end(), name) !=
        block_attributes.end()) {
      continue;
    }
    Names containers = well_known_containers();
    bool is_declared = false;
    if (tree.plan) {
      const auto declared = tree.plan->offload_submodules.find(name);
      if (declared != tree.plan->offload_submodules.end()) {
        containers = {declared->second};
        is_declared = true;
      }
    }
    if (!is_declared && tree.parameter_bytes(module) <= kLargeChildBytes) {
      continue;
    }
    FoundChild child{absl::StrCat(dit.path, ".", name), module, false, {}};
    child.is_dit = std::any_of(components.begin(), components.end(),
                               [&](const FoundComponent& other) {
                                 return other.role == ComponentRole::kDit &&
                                        other.module == child.module;
                               });
    for (const std::string& container : containers) {
      if (child.is_dit || !child.blocks.empty()) break;
      auto blocks = find_block_list(
          tree, {ComponentRole::kDit, child.path, module}, container);
      if (!blocks) continue;
      child.blocks = *std::move(blocks);
      if (!is_declared) {
        warnings->push_back(absl::StrCat(
            child.path, ".", container,
            ": is taken for its blocks because of its name, which is "
            "deprecated; declare it in _offload_plan.offload_submodules"));
      }
    }
    children.push_back(std::move(child));
  }
  return children;
}

namespace {

// Does the work of discover().
class Discoverer {
 public:
  explicit Discoverer(const ModuleTree& tree) : tree_(tree) {}

  absl::StatusOr<Discovery> run() {
    const std::vector<FoundComponent> found =
        find_components(tree_, &discovery_.warnings);
    if (found.empty() || found.front().role != ComponentRole::kDit) {
      violations_.add(
          "_dit_modules: names no diffusion transformer of the root module; "
          "declare it as List[str] of dotted paths");
    }
    std::set<size_t> seen;
    for (const FoundComponent& component : found) {
      if (!seen.insert(component.module).second) continue;
      DiscoveredComponent discovered{component, {}, {}};
      if (component.role == ComponentRole::kDit) {
        add_dit_blocks(found, &discovered);
      } else if (component.role == ComponentRole::kTextEncoder) {
        add_encoder_blocks(&discovered);
      }
      discovery_.components.push_back(std::move(discovered));
    }
    if (!violations_.empty()) return violations_.status();
    return std::move(discovery_);
  }

 private:
  void add_dit_blocks(const std::vector<FoundComponent>& components,
                      DiscoveredComponent* dit) {
    const auto blocks =
        find_dit_blocks(tree_, dit->component, &discovery_.warnings);
    if (!blocks.ok()) {
      violations_.add(blocks.status().message());
      return;
    }
    claim(blocks->blocks);
    dit->children = find_dit_children(tree_, dit->component, *blocks,
                                      components, &discovery_.warnings);
    for (const FoundChild& child : dit->children) claim(child.blocks);
    if (!blocks->blocks.empty()) dit->stacks.push_back(blocks->blocks);
  }

  void add_encoder_blocks(DiscoveredComponent* encoder) {
    if (!tree_.plan) return;
    const auto& planned = tree_.plan->encoder_block_attrs;
    const auto found = planned.find(encoder->component.path);
    if (found == planned.end()) return;
    for (const std::string& container : found->second) {
      auto blocks = find_block_list(tree_, encoder->component, container);
      if (!blocks) {
        discovery_.warnings.push_back(absl::StrCat(
            encoder->component.path, ".", container,
            ": is no list of two or more modules; its blocks cannot be "
            "streamed"));
        continue;
      }
      claim(*blocks);
      encoder->stacks.push_back(*std::move(blocks));
    }
  }

  void claim(const std::vector<FoundBlock>& blocks) {
    for (const FoundBlock& block : blocks) {
      const auto [claimed, is_new] = claims_.emplace(block.module, block.path);
      if (!is_new) {
        violations_.add(block.path, ": is a block already, as ",
                        claimed->second);
      }
    }
  }

  const ModuleTree& tree_;
  Discovery discovery_;
  Violations violations_;
  // Blocks and the paths that claimed them.
  std::map<size_t, std::string> claims_;
};

}  // namespace

absl::StatusOr<Discovery> discover(const ModuleTree& tree) {
  return Discoverer(tree).run();
}

}  // namespace ferry
