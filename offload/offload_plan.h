#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ferry {

// Which components a pipeline has, as dotted paths from its root. A module
// that is named twice in one list counts once.
struct SupportsComponentDiscovery {
  std::vector<std::string> dit_modules;
  std::vector<std::string> encoder_modules;
  std::vector<std::string> vae_modules;
  std::vector<std::string> resident_modules;
};

// What a model says about its structure, so that nothing has to be guessed.
// Paths of components are as SupportsComponentDiscovery has them.
struct OffloadPlan {
  // DiT path → names of its block containers, in the order of a pass.
  std::map<std::string, std::vector<std::string>> block_attrs;
  // Child of a DiT → path of its block container; the child's residency is its
  // own.
  std::map<std::string, std::string> offload_submodules;
  // DiTs that may have resident blocks.
  std::set<std::string> resident_dit_paths;
  // Encoder path → "text_encoder", for encoders whose name does not tell.
  std::map<std::string, std::string> encoder_component_types;
  // Encoder path → paths of its block containers; each is a ring of its own.
  std::map<std::string, std::vector<std::string>> encoder_block_attrs;
  // Encoders whose weights are equal on all ranks, and so can be gathered.
  std::set<std::string> encoder_dlo_weight_replication;
  // Components that the pipeline stages itself, when it needs them.
  std::set<std::string> on_demand_component_paths;
};

}  // namespace ferry
