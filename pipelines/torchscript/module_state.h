#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

#include "offload/tensor_group.h"

namespace ferry {

// Everything that an object's attributes reach.
struct ModuleState {
  // Each tensor object once, under the first path that leads to it.
  std::vector<NamedTensor> tensors;
  // Paths of what may hide state from us: objects of custom classes.
  std::vector<std::string> opaque;
};

// Walks all attribute values: tensors, and those in optionals, lists, dicts,
// tuples and objects, which are more than parameters and buffers.
ModuleState collect_state(const c10::IValue& value, const std::string& path);

// The tensors of one value, without paths.
std::vector<at::Tensor> tensors_of(const c10::IValue& value);

}  // namespace ferry
