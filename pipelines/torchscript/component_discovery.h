#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "offload/offloadable_module.h"

namespace ferry {

// A module and its dotted path from the root.
struct ModuleAtPath {
  std::string path;
  torch::jit::Module module;
};

// A component, with its blocks in the order in which a pass runs them.
struct DiscoveredComponent {
  std::string path;
  torch::jit::Module module;
  ComponentRole role = ComponentRole::kResident;
  // A DiT's containers are concatenated into one stack; an encoder has one
  // stack for each declared container.
  std::vector<std::vector<ModuleAtPath>> stacks;
};

struct Discovery {
  // DiTs, then encoders, VAEs and residents, each in declaration order.
  std::vector<DiscoveredComponent> components;
  // What was skipped or is deprecated; one sentence each.
  std::vector<std::string> warnings;
};

// Finds the components and blocks that the root module declares
// (`_dit_modules` and so on, `_offload_plan`), or else components with
// well-known names. Reads attributes only.
//
// A declared component that is missing or no module is skipped with a warning.
// INVALID_ARGUMENT, naming the attribute: a declaration of the wrong type, a
// declared block container that does not exist, a block in two stacks, no DiT.
absl::StatusOr<Discovery> discover_components(const torch::jit::Module& root);

// Bytes of the module's parameters and buffers, shared storages once.
int64_t count_bytes(const torch::jit::Module& module);

}  // namespace ferry
