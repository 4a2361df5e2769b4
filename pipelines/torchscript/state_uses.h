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
  // Maybe read from elsewhere too: it keeps its place.
  kShared,
  // Maybe written: as kShared, and its values are the device's.
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

// Proves where state is used. Follows the root's methods through everything
// that they call, with the objects that they find, and traces every tensor of
// the state through views, containers and control flow. A use that is not
// proven to be of the first kind is one of the others:
//   kRead     by a method of each block or component that holds the tensor,
//             called through its object: such methods have hook points, which
//             bind the state first
//   kShared   read while no such method runs, as in a function that gets the
//             block as an argument (a forward hook), used by an operator while
//             gradients may be recorded, or returned in an object
//   kWritten  written in place, set as an attribute, put into a container, or
//             given to an operator of which nothing is known
// Operators do what operator_effects.h says. Looks at graphs as they are,
// before hook points are inserted, and lets LibTorch cache nothing.
// `bound` are the modules that get hook points: TorchscriptModule::create()
// takes both from one Discovery. The root is in the mode that it is run in:
// whoever reads an archive switches it to eval at once.
StateUses find_state_uses(const torch::jit::Module& root,
                          const std::vector<BoundModule>& bound);

}  // namespace ferry
