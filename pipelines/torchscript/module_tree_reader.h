#pragma once

#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "offload/module_tree.h"

namespace ferry {

// A root module's description, with the modules that it describes.
struct TorchscriptTree {
  ModuleTree tree;
  // In the order of tree.nodes.
  std::vector<torch::jit::Module> modules;
  // By ModuleTensor::identity.
  std::map<int64_t, at::Tensor> tensors;
  // Paths of attributes that may hide state: objects of custom classes.
  std::vector<std::string> opaque;
};

// Describes a root module: its modules, every tensor that an attribute holds
// (itself, or inside lists, dicts, tuples and plain objects) or that a method
// has as a constant, and what it declares (`_dit_modules` and so on,
// `_offload_plan`). Reads only. Constants of at least one dimension are
// tensors of the module that stay resident; scalars are none.
//
// INVALID_ARGUMENT, naming all attributes that have another type than declared
// ones must have.
absl::StatusOr<TorchscriptTree> read_module_tree(
    const torch::jit::Module& root);

}  // namespace ferry
