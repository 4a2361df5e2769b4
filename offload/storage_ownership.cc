#include "offload/storage_ownership.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "platform/base/check.h"
#include "platform/base/saturating_math.h"

namespace ferry {
namespace {

// Whatever moves as a whole: a block or a component. The root holds what
// belongs to none of them.
struct Mover {
  std::string path;
  int64_t* bytes = nullptr;
  int64_t* image_bytes = nullptr;
  bool is_block = false;
  // Whether it leaves the device.
  bool moves = false;
};

// Finds the users of each storage by walking the tree.
class Assigner {
 public:
  Assigner(const ModuleTree& tree, ResolvedPlan* plan)
      : tree_(tree), plan_(plan) {}

  void run() {
    for (PlannedComponent& component : plan_->components) {
      add_movers(&component);
    }
    walk();
    for (StoragePlacement& placement : plan_->storages) settle(&placement);
  }

 private:
  void add_movers(PlannedComponent* component) {
    // The first role of a module counts.
    movers_.emplace(component->module, Mover{component->path, &component->bytes,
                                             &component->image_bytes, false,
                                             component->takes_turns});
    for (PlannedStack& stack : component->stacks) {
      for (PlannedBlock& block : stack.blocks) {
        Mover& mover = movers_[block.module];
        FERRY_CHECK(!mover.is_block);
        mover = {block.path, &block.bytes, &block.image_bytes, true,
                 !block.resident};
      }
    }
    for (PlannedComponent& child : component->children) {
      // A DiT inside another one moves as the component that it is.
      if (child.selected) add_movers(&child);
    }
  }

  // Visits each module once for each mover that it is a part of.
  void walk() {
    struct Visit {
      size_t module;
      size_t mover;
      std::string path;
    };
    std::set<std::pair<size_t, size_t>> seen = {{0, 0}};
    std::vector<Visit> pending = {{0, 0, ""}};
    while (!pending.empty()) {
      const Visit visit = std::move(pending.back());
      pending.pop_back();
      const ModuleNode& node = tree_.nodes[visit.module];
      for (const ModuleTensor& tensor : node.tensors) {
        note(tensor, visit.mover, absl::StrCat(visit.path, tensor.name));
      }
      for (auto child = node.children.rbegin(); child != node.children.rend();
           ++child) {
        const size_t module = child->second;
        const size_t mover = movers_.count(module) > 0 ? module : visit.mover;
        if (!seen.emplace(module, mover).second) continue;
        pending.push_back(
            {module, mover, absl::StrCat(visit.path, child->first, ".")});
      }
    }
  }

  void note(const ModuleTensor& tensor, size_t mover, std::string name) {
    if (tensor.storage < 0) return;
    const auto [found, is_new] =
        positions_.emplace(tensor.storage, plan_->storages.size());
    if (is_new) {
      StoragePlacement placement;
      placement.storage = tensor.storage;
      placement.module = mover;
      placement.name = std::move(name);
      placement.bytes = tensor.storage_bytes;
      plan_->storages.push_back(std::move(placement));
      users_.emplace_back();
    }
    users_[found->second].insert(mover);
    std::string& reason = plan_->storages[found->second].reason;
    if (reason.empty()) reason = tensor.resident_reason;
  }

  void settle(StoragePlacement* placement) {
    const size_t index = positions_.at(placement->storage);
    const std::set<size_t>& users = users_[index];
    const auto mover = movers_.find(placement->module);
    if (users.size() > 1) {
      std::vector<std::string> names;
      for (size_t user : users) names.push_back(path_of(user));
      placement->reason = absl::StrCat(
          placement->reason, placement->reason.empty() ? "" : ", and ",
          "is used by ", names[0], " and ", names[1],
          names.size() > 2 ? " and others" : "");
    } else if (placement->reason.empty() && mover == movers_.end()) {
      placement->reason = "belongs to no component";
    }
    if (!placement->reason.empty()) {
      placement->owner = StoragePlacement::Owner::kResident;
      const auto claimant =
          std::find_if(users.begin(), users.end(), [&](size_t user) {
            const auto found = movers_.find(user);
            return found != movers_.end() && found->second.moves;
          });
      if (claimant != users.end()) placement->claimant = *claimant;
      return;
    }
    placement->owner = mover->second.is_block
                           ? StoragePlacement::Owner::kBlock
                           : StoragePlacement::Owner::kComponent;
    Mover& owner = mover->second;
    *owner.bytes = saturating_add(*owner.bytes, placement->bytes);
    *owner.image_bytes =
        saturating_add(*owner.image_bytes, align_for_image(placement->bytes));
  }

  std::string path_of(size_t user) const {
    const auto mover = movers_.find(user);
    return mover == movers_.end() ? "the pipeline" : mover->second.path;
  }

  const ModuleTree& tree_;
  ResolvedPlan* const plan_;
  // By module.
  std::map<size_t, Mover> movers_;
  // Storage → its place in plan_->storages, and there its movers.
  std::map<int64_t, size_t> positions_;
  std::vector<std::set<size_t>> users_;
};

}  // namespace

void assign_storages(const ModuleTree& tree, ResolvedPlan* plan) {
  Assigner(tree, plan).run();
}

}  // namespace ferry
