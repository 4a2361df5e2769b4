#include "offload/make_placement_plan.h"

#include <c10/core/Layout.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "offload/image_storage.h"
#include "offload/written_state.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

using Owner = StoragePlacement::Owner;

// Why no image can hold a tensor; empty when one can.
std::string defect(const at::Tensor& tensor) {
  if (tensor.is_quantized()) return "is quantized";
  if (tensor.is_nested()) return "is a nested tensor";
  if (tensor.is_meta()) return "is on the meta device and has no values";
  if (tensor.layout() != c10::kStrided || !tensor.has_storage()) {
    return "is not a dense strided tensor";
  }
  if (!tensor.is_cpu()) {
    return absl::StrCat("is on ", tensor.device().str(), ", not on the host");
  }
  return "";
}

// Who has the tensor already; empty when nobody has.
std::string holder(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return "";
  const c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  if (!is_image_storage(storage)) return "";
  const std::string* const owner = image_owner(storage);
  return owner == nullptr
             ? "was given up with the backend that held it; load the pipeline "
               "again"
             : absl::StrCat("is held by another offload backend, as a part of ",
                            *owner, "; disable that one first");
}

// Does the work of make_placement_plan().
class Maker {
 public:
  Maker(OffloadableModule& module, const ResolvedPlan& plan,
        const OffloadConfig& config, int slots)
      : module_(module), plan_(plan), config_(config), slots_(slots) {
    for (const StoragePlacement& placement : plan.storages) {
      placements_[placement.storage] = &placement;
    }
    staged_.options.name = "the components that take turns";
    staged_.options.slots = 1;
    staged_.options.prefetch = false;
  }

  absl::StatusOr<PlacementPlan> run() {
    RETURN_IF_ERROR(deal_tensors());
    for (const PlannedComponent& component : plan_.components) add(component);
    if (!staged_.blocks.empty()) result_.rings.push_back(std::move(staged_));
    shared_.owner = "shared state";
    result_.resident.push_back(std::move(shared_));
    add_audits();
    return std::move(result_);
  }

 private:
  const ModuleTree& tree() const { return module_.tree(); }

  // Puts each tensor object into the group of the storage's owner, but for what
  // is written.
  absl::Status deal_tensors() {
    std::vector<std::string> defects = module_.obstacles();
    tree().for_each_tensor(
        [&](const ModuleTensor& tensor, const std::string& path) {
          const std::string text = defect(module_.tensor(tensor.identity));
          if (!text.empty()) defects.push_back(absl::StrCat(path, " ", text));
        });
    if (!defects.empty()) {
      return absl::InvalidArgumentError(absl::StrJoin(defects, "; "));
    }
    result_.written = &module_.written_state();
    for (const NamedTensor& item : result_.written->tensors()) {
      written_.insert(item.tensor.unsafeGetTensorImpl());
    }
    tree().for_each_tensor(
        [&](const ModuleTensor& tensor, const std::string& path) {
          const at::Tensor& object = module_.tensor(tensor.identity);
          if (is_written(object)) return;
          group_of(tensor).tensors.push_back({path, object});
        });
    return absl::OkStatus();
  }

  bool is_written(const at::Tensor& tensor) const {
    return written_.count(tensor.unsafeGetTensorImpl()) > 0;
  }

  TensorGroup& group_of(const ModuleTensor& tensor) {
    const auto placement = placements_.find(tensor.storage);
    // Without elements; a kernel may ask where it is all the same.
    if (placement == placements_.end() ||
        placement->second->owner == Owner::kResident) {
      return shared_;
    }
    return groups_[placement->second->module];
  }

  TensorGroup take(size_t module, const std::string& path) {
    TensorGroup group = std::move(groups_[module]);
    groups_[module] = TensorGroup();
    group.owner = path;
    return group;
  }

  void add(const PlannedComponent& component) {
    TensorGroup rest = take(component.module, component.path);
    for (size_t s = 0; s < component.stacks.size(); ++s) {
      std::string name = component.path;
      if (component.stacks.size() > 1) absl::StrAppend(&name, "[", s, "]");
      add_stack(component, component.stacks[s], std::move(name));
    }
    for (const PlannedComponent& child : component.children) add(child);
    if (component.takes_turns) {
      stage(component, std::move(rest));
    } else {
      keep(std::move(rest));
    }
  }

  void add_stack(const PlannedComponent& component, const PlannedStack& stack,
                 std::string name) {
    PlacementPlan::Ring ring;
    ring.options.name = std::move(name);
    ring.is_gathered = config_.gathers(component.role);
    ring.component_hooks = module_.hooks(component.module);
    for (const PlannedBlock& block : stack.blocks) {
      TensorGroup group = take(block.module, block.path);
      if (block.resident) {
        keep(std::move(group));
      } else if (!group.tensors.empty()) {
        // What a block without tensors has is shared, and so resident.
        ring.blocks.push_back(std::move(group));
        ring.hooks.push_back(module_.hooks(block.module));
      }
    }
    if (ring.blocks.empty()) return;
    const int slots = stack.slots > 0 ? static_cast<int>(stack.slots) : slots_;
    ring.options.slots = std::min(slots, static_cast<int>(ring.blocks.size()));
    ring.options.nests = stack.nests;
    result_.rings.push_back(std::move(ring));
  }

  void keep(TensorGroup group) {
    if (!group.tensors.empty()) result_.resident.push_back(std::move(group));
  }

  void stage(const PlannedComponent& component, TensorGroup group) {
    if (group.tensors.empty()) return;
    staged_.blocks.push_back(std::move(group));
    staged_.hooks.push_back(module_.hooks(component.module));
  }

  // Before each component runs, what it reaches is looked at, and what belongs
  // to no component, since the root's methods reach that.
  void add_audits() {
    std::set<size_t> below;
    for (const OffloadableComponent& component : module_.components()) {
      PlacementPlan::Audit audit;
      audit.hooks = component.hooks;
      for (const size_t index : tree().subtree(component.module)) {
        add_tensors(index, component.path, &audit);
        below.insert(index);
      }
      result_.audits.push_back(std::move(audit));
    }
    for (const size_t index : tree().subtree(0)) {
      if (below.count(index) > 0) continue;
      for (PlacementPlan::Audit& audit : result_.audits) {
        add_tensors(index, "pipeline", &audit);
      }
    }
  }

  // Methods may put what they write into other memory.
  void add_tensors(size_t index, const std::string& path,
                   PlacementPlan::Audit* audit) const {
    for (const ModuleTensor& tensor : tree().nodes[index].tensors) {
      const at::Tensor& object = module_.tensor(tensor.identity);
      if (is_written(object)) continue;
      audit->tensors.push_back({absl::StrCat(path, ": ", tensor.name), object});
    }
  }

  OffloadableModule& module_;
  const ResolvedPlan& plan_;
  const OffloadConfig& config_;
  const int slots_;
  std::map<int64_t, const StoragePlacement*> placements_;
  // By the module that moves them: a block or a component.
  std::map<size_t, TensorGroup> groups_;
  TensorGroup shared_;
  // Objects of written state.
  std::set<const void*> written_;
  PlacementPlan::Ring staged_;
  PlacementPlan result_;
};

}  // namespace

absl::Status check_nobody_holds(OffloadableModule& module) {
  absl::Status status;
  // One that is held tells of all: a backend takes the whole module.
  module.tree().for_each_tensor([&](const ModuleTensor& tensor,
                                    const std::string& path) {
    const std::string text = holder(module.tensor(tensor.identity));
    if (text.empty()) return;
    status.Update(absl::FailedPreconditionError(absl::StrCat(path, " ", text)));
  });
  status.Update(module.written_state().check_loose());
  return status;
}

absl::StatusOr<PlacementPlan> make_placement_plan(OffloadableModule& module,
                                                  const ResolvedPlan& plan,
                                                  const OffloadConfig& config,
                                                  int slots) {
  return Maker(module, plan, config, slots).run();
}

}  // namespace ferry
