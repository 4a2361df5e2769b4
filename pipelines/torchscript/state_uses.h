#pragma once

#include <c10/core/StorageImpl.h>
#include <torch/csrc/jit/api/module.h>

#include <map>
#include <string>
#include <vector>

#include "offload/tensor_group.h"

namespace ferry {

// How the methods of a pipeline use a tensor of its state.
enum class StateUse {
  // Read by the block or component that holds it, or by nobody.
  kRead,
  // Read from elsewhere too: it keeps its place.
  kShared,
  // Written, or nobody can tell: as kShared, and its values are the device's.
  kWritten,
};

// A block or component: its methods bind its state first.
struct BoundModule {
  std::string path;
  torch::jit::Module module;
};

// How the methods of a pipeline use its state.
struct StateUses {
  struct Use {
    StateUse use = StateUse::kRead;
    std::string reason;
  };
  // Storages that are used otherwise than by kRead.
  std::map<const c10::StorageImpl*, Use> storages;
  // Tensors with dimensions among the constants of graphs. Passes compute with
  // constants when they like, so those must always have their values.
  std::vector<NamedTensor> constants;
};

// Follows the root's methods through everything that they call, with the
// objects that they find, and traces every tensor that is written back through
// views, containers and control flow to the state that it may share memory
// with.
//   kWritten  written in place, set as an attribute, or in the hands of an
//             operator that says nothing about what it writes
//   kShared   read while no method of a block or component that holds it
//             runs, or put into a container that outlives the statement
// What cannot be decided counts as used. Looks at graphs as they are, before
// hook points are inserted, and lets LibTorch cache nothing.
StateUses find_state_uses(const torch::jit::Module& root,
                          const std::vector<BoundModule>& bound);

}  // namespace ferry
