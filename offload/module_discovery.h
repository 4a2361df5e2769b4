#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "offload/component_role.h"
#include "offload/module_tree.h"

namespace ferry {

// A component: a module with a role, under the path that names it.
struct FoundComponent {
  ComponentRole role = ComponentRole::kResident;
  std::string path;
  size_t module = 0;
};

// A block, with its path from the root.
struct FoundBlock {
  std::string path;
  size_t module = 0;
};

// The blocks of a DiT, in the order of a pass.
struct DitBlocks {
  // Attributes of the DiT that hold them.
  std::vector<std::string> attributes;
  std::vector<FoundBlock> blocks;
};

// A child of a DiT whose residency is its own.
struct FoundChild {
  std::string path;
  size_t module = 0;
  // A DiT by itself; its own component owns it.
  bool is_dit = false;
  // Empty: it has to be staged as a whole.
  std::vector<FoundBlock> blocks;
};

// What a pipeline declares, or else what has well-known names, which is
// deprecated. DiTs, then encoders, VAEs and residents, each in the order of
// declaration; a module twice in one role counts once, under its first name.
// What is declared and missing, or no module, is skipped with a warning; what
// is found by its name, with one warning for all.
std::vector<FoundComponent> find_components(const ModuleTree& tree,
                                            std::vector<std::string>* warnings);

// Blocks of a DiT: the plan's containers, else the DiT's own declaration, else
// none; containers are concatenated. A container that is no list counts as one
// block, with a warning. INVALID_ARGUMENT when a container does not exist.
absl::StatusOr<DitBlocks> find_dit_blocks(const ModuleTree& tree,
                                          const FoundComponent& dit,
                                          std::vector<std::string>* warnings);

// A list of two or more modules at a path below a module; nothing otherwise.
std::optional<std::vector<FoundBlock>> find_block_list(
    const ModuleTree& tree, const FoundComponent& component,
    const std::string& attribute);

// Children of a DiT beside its blocks that are declared (offload_submodules)
// or have more than 1 GiB of parameters, loaded or not. `components` are all
// of the pipeline.
std::vector<FoundChild> find_dit_children(
    const ModuleTree& tree, const FoundComponent& dit,
    const DitBlocks& dit_blocks, const std::vector<FoundComponent>& components,
    std::vector<std::string>* warnings);

// A component with every stack that some policy might stream.
struct DiscoveredComponent {
  FoundComponent component;
  // A DiT's containers are concatenated into one stack; an encoder has one
  // stack for each declared container.
  std::vector<std::vector<FoundBlock>> stacks;
  std::vector<FoundChild> children;
};

struct Discovery {
  // As find_components() orders them; a module with two roles has the first.
  std::vector<DiscoveredComponent> components;
  // What was skipped or is deprecated; one sentence each.
  std::vector<std::string> warnings;
};

// All that any policy might make use of: where hooks can be asked for later.
// INVALID_ARGUMENT, naming all that is wrong: no DiT, a declared container
// that does not exist, a block in two stacks.
absl::StatusOr<Discovery> discover(const ModuleTree& tree);

}  // namespace ferry
