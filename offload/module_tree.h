#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "offload/offload_plan.h"

namespace ferry {

// A tensor that a module holds: a parameter, a buffer, a plain attribute, an
// element of a list, or a constant of a method.
struct ModuleTensor {
  // As the module's code calls it.
  std::string name;
  // Equal for one tensor that is held twice.
  int64_t identity = 0;
  // Equal for tensors that share memory, whatever their offsets and strides;
  // negative when there is none (an empty tensor, one on meta).
  int64_t storage = -1;
  // Of the whole storage.
  int64_t storage_bytes = 0;
  // Elements times their size; more or less than storage_bytes for views.
  int64_t bytes = 0;
  bool is_parameter = false;
  // Why it has to stay on the device, such as "is written by add_ in denoise";
  // empty when it may leave.
  std::string resident_reason;
  // Methods write it, or nobody can tell: each generation begins with the
  // package's values (written_state.h). Then resident_reason is set.
  bool is_written = false;
};

// One module object. It is one node, however many names it has.
struct ModuleNode {
  // Children by their names, in the order of definition.
  std::vector<std::pair<std::string, size_t>> children;
  std::vector<ModuleTensor> tensors;
  // Attributes that are neither modules nor None.
  std::set<std::string> other_attributes;
  // Of these, and of what they hold, what methods write that is no tensor, such
  // as counters and lists; by what.
  std::map<std::string, std::string> written_attributes;
  // Holds its children 0, 1, 2 … and nothing else.
  bool is_list = false;
  // `_layerwise_offload_blocks_attrs`, and its deprecated singular.
  std::optional<std::vector<std::string>> blocks_attrs;
  std::optional<std::vector<std::string>> deprecated_blocks_attr;
  // Can be staged by the pipeline.
  bool on_demand_lifecycle = false;
  // A stub stands for a component that this rank never runs.
  bool is_loaded = true;
};

// What a path leads to.
struct ModuleLookup {
  enum class Kind { kMissing, kNoModule, kModule };
  Kind kind = Kind::kMissing;
  // Index of the node; valid for kModule.
  size_t module = 0;
};

// A pipeline's modules, tensors and declarations, described without the
// modules themselves: all that discovery and the plan resolver look at. A
// value; nodes are named by their index.
struct ModuleTree {
  // The first one is the root.
  std::vector<ModuleNode> nodes;
  // Unset: components are found by well-known names.
  std::optional<SupportsComponentDiscovery> declarations;
  std::optional<OffloadPlan> plan;

  // Follows a dotted path.
  ModuleLookup find(size_t from, absl::string_view path) const;
  // Bytes of the parameters below a module, each one once, loaded or not.
  int64_t parameter_bytes(size_t module) const;
  // Bytes of the storages below a module, each one once.
  int64_t storage_bytes(size_t module) const;
  // Each tensor object once, with its first path from the root.
  void for_each_tensor(
      absl::FunctionRef<void(const ModuleTensor&, const std::string& path)>
          function) const;
  // Each module once, with its first path from the root and its dot, if it has
  // one.
  void for_each_node(
      absl::FunctionRef<void(const ModuleNode&, const std::string& prefix)>
          function) const;
  // A module and all below it, each once.
  std::vector<size_t> subtree(size_t module) const;
};

}  // namespace ferry
