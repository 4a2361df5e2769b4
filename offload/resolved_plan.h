#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "offload/component_role.h"
#include "platform/base/saturating_math.h"

namespace ferry {

// Storages start at multiples of this inside an image.
inline constexpr int64_t kImageAlignment = 256;

// Rounds up to a multiple of kImageAlignment; saturated (saturating_math.h).
constexpr int64_t align_for_image(int64_t bytes) {
  return saturating_round_up(bytes, kImageAlignment);
}

// A block of a ring. Modules are indices of ModuleTree::nodes.
struct PlannedBlock {
  // Dotted path from the root, such as transformer.blocks.3.
  std::string path;
  size_t module = 0;
  // Whether it stays on the device.
  bool resident = false;
  // Of the storages that it owns.
  int64_t bytes = 0;
  // The same in one image, where each storage starts at kImageAlignment.
  int64_t image_bytes = 0;
};

// One ring: blocks in the order in which a pass runs through them. Either
// none or at least two of them are streamed.
struct PlannedStack {
  std::vector<PlannedBlock> blocks;
  // Device slots for the streamed ones; 0: as many as the backend takes.
  int64_t slots = 0;
  // A block holds another one, and so one may run inside of another.
  bool nests = false;

  int64_t resident_blocks() const {
    int64_t count = 0;
    for (const PlannedBlock& block : blocks) count += block.resident ? 1 : 0;
    return count;
  }
};

// A component and what is done with it.
struct PlannedComponent {
  ComponentRole role = ComponentRole::kResident;
  std::string path;
  size_t module = 0;
  // The policy covers it. One that is not selected stays on the device in the
  // layer strategies; at model level it evicts those that are.
  bool selected = false;
  // The pipeline stages it as a whole when it needs it.
  bool on_demand = false;
  // Its state beside blocks comes into the one slot that all such components
  // share when it runs. A component inside of another one may run at the same
  // time as that, and so it stays on the device even if it is on_demand.
  bool takes_turns = false;
  // Why it stays although the policy covers it; empty if it does not, or if
  // parts of it stay for reasons of their own (StoragePlacement::reason).
  std::string held_reason;
  // Streamed rings: one of a DiT, one for each container of an encoder.
  std::vector<PlannedStack> stacks;
  // Parts of a DiT whose residency is their own.
  std::vector<PlannedComponent> children;
  // Of the storages that it owns beside those of its blocks and children.
  int64_t bytes = 0;
  int64_t image_bytes = 0;
};

// Who owns a storage. Its bytes are where the owner is.
struct StoragePlacement {
  enum class Owner {
    // Moves with a block.
    kBlock,
    // Moves with a component, as its state beside blocks.
    kComponent,
    // Stays on the device for the pipeline's life.
    kResident,
  };
  // ModuleTensor::storage.
  int64_t storage = 0;
  // From the first to behind the last byte that a tensor uses; starts at a
  // multiple of kImageAlignment.
  int64_t bytes = 0;
  Owner owner = Owner::kResident;
  // The owning block or component; of kResident the first user.
  size_t module = 0;
  // Of kResident: a user that would move it but for the reason, if there is
  // one: a block that does not stay, or a component that takes turns.
  std::optional<size_t> claimant;
  // Names a tensor of it from the root.
  std::string name;
  // Why it stays; empty unless it is kResident.
  std::string reason;
};

// What a policy makes of a pipeline, decided before anything is moved.
struct ResolvedPlan {
  // DiTs, then encoders, VAEs and residents, each in order of declaration. A
  // module with two roles stands in both.
  std::vector<PlannedComponent> components;
  // Set when nothing is to be done at all: offloading then touches nothing.
  std::optional<std::string> skip_reason;
  // Each storage below the root once, in the order of discovery.
  std::vector<StoragePlacement> storages;
  // What was skipped or is deprecated; one sentence each.
  std::vector<std::string> warnings;
};

}  // namespace ferry
