#include "offload/plan_resolver.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "offload/module_discovery.h"
#include "offload/storage_ownership.h"
#include "offload/violations.h"
#include "platform/base/check.h"

namespace ferry {
namespace {

constexpr char kTextEncoder[] = "text_encoder";

// Whether a block holds another one.
bool nests(const ModuleTree& tree, const std::vector<FoundBlock>& blocks) {
  std::set<size_t> modules;
  for (const FoundBlock& block : blocks) modules.insert(block.module);
  return std::any_of(
      blocks.begin(), blocks.end(), [&](const FoundBlock& block) {
        const std::vector<size_t> below = tree.subtree(block.module);
        return std::any_of(below.begin() + 1, below.end(), [&](size_t module) {
          return modules.count(module) > 0;
        });
      });
}

PlannedStack make_stack(const ModuleTree& tree,
                        const std::vector<FoundBlock>& blocks,
                        int64_t resident) {
  PlannedStack stack;
  stack.nests = nests(tree, blocks);
  const auto count = static_cast<int64_t>(blocks.size());
  for (int64_t i = 0; i < count; ++i) {
    const FoundBlock& block = blocks[static_cast<size_t>(i)];
    // Evenly spaced, so that each streamed block hides behind resident ones.
    const bool stays = (i + 1) * resident / count > i * resident / count;
    stack.blocks.push_back({block.path, block.module, stays, 0, 0});
  }
  return stack;
}

// Does the work of resolve_offload_plan().
class Resolver {
 public:
  Resolver(const ModuleTree& tree, const OffloadConfig& config)
      : tree_(tree), config_(config) {}

  absl::StatusOr<ResolvedPlan> run() {
    components_ = find_components(tree_, &plan_.warnings);
    check_selection();
    check_resident_paths();
    for (const FoundComponent& component : components_) add(component);
    if (!violations_.empty()) return violations_.status();
    for (PlannedComponent& component : plan_.components) {
      decide_turns(&component);
    }
    assign_storages(tree_, &plan_);
    return std::move(plan_);
  }

 private:
  bool is_explicit() const { return config_.is_explicit(); }
  bool streams_blocks() const { return config_.offload_streams_blocks(); }

  void warn(std::string warning) {
    plan_.warnings.push_back(std::move(warning));
  }

  bool has_role(ComponentRole role) const {
    return std::any_of(components_.begin(), components_.end(),
                       [&](const FoundComponent& c) { return c.role == role; });
  }

  void check_selection();
  void check_resident_paths();
  void add(const FoundComponent& component);
  void add_dit(PlannedComponent* dit, const FoundComponent& found);
  void add_children(PlannedComponent* dit, const FoundComponent& found,
                    const DitBlocks& blocks);
  void add_encoder(PlannedComponent* encoder, const FoundComponent& found);
  void add_encoder_stacks(PlannedComponent* encoder,
                          const FoundComponent& found);
  void add_vae(PlannedComponent* vae);

  // Blocks of the DiT that stay; all of them when one alone would be streamed.
  int64_t resident_blocks(const FoundComponent& dit, int64_t count) const;
  bool is_text_encoder(const std::string& path);
  bool is_declared_on_demand(const std::string& path) const {
    return tree_.plan && tree_.plan->on_demand_component_paths.count(path) > 0;
  }
  void check_lifecycle(const PlannedComponent& component);
  void decide_turns(PlannedComponent* component) const;
  bool lies_in_another(const PlannedComponent& component) const;
  void claim(const PlannedStack& stack, const std::string& owner);

  const ModuleTree& tree_;
  const OffloadConfig& config_;
  std::vector<FoundComponent> components_;
  ResolvedPlan plan_;
  Violations violations_;
  // Blocks and the components whose rings they are in.
  std::map<size_t, std::string> claims_;
};

// What was named has to exist.
void Resolver::check_selection() {
  const bool has_dit = has_role(ComponentRole::kDit);
  if (config_.strategy() == OffloadStrategy::kLayerWise && !has_dit &&
      config_.selects(OffloadComponent::kDit)) {
    plan_.skip_reason = "the pipeline has no diffusion transformer";
  }
  if (!is_explicit()) return;
  if (config_.strategy() == OffloadStrategy::kModelLevel) {
    if (!has_dit) {
      violations_.add("mode \"module\" needs a DiT, and there is none");
    }
    if (!has_role(ComponentRole::kTextEncoder)) {
      violations_.add("mode \"module\" needs an encoder, and there is none");
    }
  } else if (config_.selects(OffloadComponent::kDit) && !has_dit) {
    violations_.add("components: \"dit\" is selected, and there is no DiT");
  }
  bool has_text_encoder = false;
  for (const FoundComponent& component : components_) {
    if (component.role != ComponentRole::kTextEncoder) continue;
    has_text_encoder |= is_text_encoder(component.path);
  }
  if (config_.selects(OffloadComponent::kTextEncoder) && !has_text_encoder) {
    violations_.add(
        "components: \"text_encoder\" is selected, and there is none; "
        "_offload_plan.encoder_component_types can name one");
  }
  if (config_.selects(OffloadComponent::kVae) &&
      !has_role(ComponentRole::kVae)) {
    violations_.add("components: \"vae\" is selected, and there is no VAE");
  }
}

void Resolver::check_resident_paths() {
  if (!config_.is_distributed() || config_.resident_layers() == 0) return;
  for (const FoundComponent& component : components_) {
    if (component.role == ComponentRole::kDit && tree_.plan &&
        tree_.plan->resident_dit_paths.count(component.path) > 0) {
      return;
    }
  }
  const std::string message = absl::StrCat(
      "resident_layers: ", config_.resident_layers(),
      " blocks are to stay, but _offload_plan.resident_dit_paths names no DiT "
      "of this pipeline");
  if (is_explicit()) {
    violations_.add(message);
  } else {
    warn(absl::StrCat(message, "; all are streamed"));
  }
}

void Resolver::add(const FoundComponent& found) {
  PlannedComponent component;
  component.role = found.role;
  component.path = found.path;
  component.module = found.module;
  switch (found.role) {
    case ComponentRole::kDit:
      add_dit(&component, found);
      break;
    case ComponentRole::kTextEncoder:
      add_encoder(&component, found);
      break;
    case ComponentRole::kVae:
      add_vae(&component);
      break;
    case ComponentRole::kResident:
      break;
  }
  plan_.components.push_back(std::move(component));
}

void Resolver::add_dit(PlannedComponent* dit, const FoundComponent& found) {
  dit->selected = config_.selects(OffloadComponent::kDit);
  if (!dit->selected || !streams_blocks()) return;
  const auto blocks = find_dit_blocks(tree_, found, &plan_.warnings);
  if (!blocks.ok()) {
    violations_.add(blocks.status().message());
    return;
  }
  const auto count = static_cast<int64_t>(blocks->blocks.size());
  const int64_t resident = resident_blocks(found, count);
  if (is_explicit() && count == 0) {
    violations_.add(found.path, ": is selected, but declares no blocks");
  } else if (is_explicit() && count - resident == 1) {
    violations_.add(found.path, ": has ", count, " blocks, of which ", resident,
                    " would stay; none or at least two must be left to stream");
  } else if (count == 0) {
    warn(absl::StrCat(found.path, ": declares no blocks and stays resident"));
    dit->held_reason = "declares no blocks";
  } else if (count - resident == 1 && !config_.is_distributed()) {
    warn(absl::StrCat(found.path, ": has one block and stays resident"));
    dit->held_reason = "has one block, and one alone cannot be streamed";
  } else {
    const bool one_left = count - resident == 1;
    if (one_left) {
      warn(absl::StrCat(found.path,
                        ": one block alone cannot be streamed and stays"));
    }
    dit->stacks.push_back(
        make_stack(tree_, blocks->blocks, one_left ? count : resident));
    claim(dit->stacks.back(), found.path);
    if (config_.is_distributed()) add_children(dit, found, *blocks);
  }
}

int64_t Resolver::resident_blocks(const FoundComponent& dit,
                                  int64_t count) const {
  if (!config_.is_distributed() || !tree_.plan ||
      tree_.plan->resident_dit_paths.count(dit.path) == 0) {
    return 0;
  }
  return std::min(config_.resident_layers(), count);
}

void Resolver::add_children(PlannedComponent* dit, const FoundComponent& found,
                            const DitBlocks& blocks) {
  for (const FoundChild& child :
       find_dit_children(tree_, found, blocks, components_, &plan_.warnings)) {
    PlannedComponent component;
    component.role = ComponentRole::kDit;
    component.path = child.path;
    component.module = child.module;
    component.selected = !child.is_dit;
    if (!child.is_dit && child.blocks.empty()) {
      component.on_demand = true;
      check_lifecycle(component);
    } else if (!child.is_dit) {
      component.stacks.push_back(make_stack(tree_, child.blocks, 0));
      claim(component.stacks.back(), child.path);
    }
    dit->children.push_back(std::move(component));
  }
}

void Resolver::add_encoder(PlannedComponent* encoder,
                           const FoundComponent& found) {
  encoder->selected =
      !is_explicit() || (config_.selects(OffloadComponent::kTextEncoder) &&
                         is_text_encoder(found.path));
  if (!encoder->selected || !streams_blocks()) return;
  encoder->on_demand = is_declared_on_demand(found.path);
  if (encoder->on_demand) check_lifecycle(*encoder);
  add_encoder_stacks(encoder, found);
  if (!encoder->stacks.empty()) return;
  if (!encoder->on_demand) encoder->held_reason = "declares no blocks";
  if (encoder->on_demand &&
      config_.uses_allgather(OffloadComponent::kTextEncoder)) {
    violations_.add(found.path,
                    ": weight_transfer \"allgather\" needs blocks, which "
                    "_offload_plan.encoder_block_attrs does not declare");
  } else if (is_explicit() && !encoder->on_demand) {
    violations_.add(found.path,
                    ": is selected, but neither "
                    "_offload_plan.encoder_block_attrs nor "
                    "on_demand_component_paths declares how it can leave the "
                    "device");
  }
}

void Resolver::add_encoder_stacks(PlannedComponent* encoder,
                                  const FoundComponent& found) {
  if (!tree_.plan) return;
  const bool gathered = config_.is_distributed() &&
                        config_.uses_allgather(OffloadComponent::kTextEncoder);
  const int64_t group_size = gathered ? config_.group_size() : 1;
  // Before blocks are looked for: a rank with a stub must refuse it too.
  if (group_size > 1 &&
      tree_.plan->encoder_dlo_weight_replication.count(found.path) == 0) {
    violations_.add(
        found.path, ": weight_transfer \"allgather\" over ", group_size,
        " ranks needs equal weights on all of them, which "
        "_offload_plan.encoder_dlo_weight_replication does not declare; use "
        "\"rank-local\"");
    return;
  }
  const auto planned = tree_.plan->encoder_block_attrs.find(found.path);
  if (planned == tree_.plan->encoder_block_attrs.end() ||
      !tree_.nodes[found.module].is_loaded) {
    return;
  }
  for (const std::string& container : planned->second) {
    const auto blocks = find_block_list(tree_, found, container);
    if (blocks) {
      encoder->stacks.push_back(make_stack(tree_, *blocks, 0));
      claim(encoder->stacks.back(), found.path);
      continue;
    }
    const std::string message =
        absl::StrCat(found.path, ".", container,
                     ": is no list of two or more modules; its blocks cannot "
                     "be streamed");
    if (is_explicit() || group_size > 1) {
      violations_.add(message);
    } else {
      warn(message);
    }
  }
}

void Resolver::add_vae(PlannedComponent* vae) {
  vae->selected = is_explicit() && config_.selects(OffloadComponent::kVae);
  if (!streams_blocks()) return;
  vae->on_demand =
      vae->selected || (!is_explicit() && is_declared_on_demand(vae->path));
  if (vae->on_demand) check_lifecycle(*vae);
}

// A public component by the plan's word, else by the encoder's name.
bool Resolver::is_text_encoder(const std::string& path) {
  if (tree_.plan) {
    const auto& types = tree_.plan->encoder_component_types;
    const auto declared = types.find(path);
    if (declared != types.end()) {
      if (declared->second == kTextEncoder) return true;
      violations_.add("_offload_plan.encoder_component_types: ", path, " is \"",
                      declared->second, "\"; allowed is \"text_encoder\"");
      return false;
    }
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '.');
  return absl::StartsWith(parts.back(), kTextEncoder) ||
         absl::EndsWith(parts.back(), kTextEncoder);
}

void Resolver::check_lifecycle(const PlannedComponent& component) {
  if (tree_.nodes[component.module].on_demand_lifecycle) return;
  violations_.add(component.path,
                  ": is to be staged on demand, but does not declare the "
                  "lifecycle (_on_demand_lifecycle)");
}

void Resolver::decide_turns(PlannedComponent* component) const {
  const bool leaves = config_.strategy() == OffloadStrategy::kModelLevel
                          ? component->selected
                          : component->on_demand;
  component->takes_turns = leaves && !lies_in_another(*component);
  for (PlannedComponent& child : component->children) decide_turns(&child);
}

bool Resolver::lies_in_another(const PlannedComponent& component) const {
  return std::any_of(
      components_.begin(), components_.end(), [&](const FoundComponent& other) {
        if (other.module == component.module) return false;
        const std::vector<size_t> below = tree_.subtree(other.module);
        return std::find(below.begin(), below.end(), component.module) !=
               below.end();
      });
}

void Resolver::claim(const PlannedStack& stack, const std::string& owner) {
  for (const PlannedBlock& block : stack.blocks) {
    const auto [claimed, is_new] = claims_.emplace(block.module, owner);
    if (!is_new) {
      violations_.add(block.path, ": is claimed by both ", claimed->second,
                      " and ", owner, "; declare one owner for each block");
    }
  }
}

}  // namespace

absl::StatusOr<ResolvedPlan> resolve_offload_plan(const ModuleTree& tree,
                                                  const OffloadConfig& config) {
  FERRY_CHECK(!config.is_automatic());
  return Resolver(tree, config).run();
}

}  // namespace ferry
