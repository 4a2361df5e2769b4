#pragma once

#include <ATen/core/Tensor.h>

#include "absl/functional/function_ref.h"

namespace ferry {

// What a method is about to return, as hooks see it: a tensor, or a nest of
// lists, tuples, dicts and objects with tensors in it. Modules in it are not
// looked into.
//
// Ownership: lives for the call of post_forward().
// Threads: the one that runs the module.
class ForwardOutput {
 public:
  virtual ~ForwardOutput() = default;

  // Whether `predicate` is true for a tensor of the output. Allocates nothing.
  virtual bool any_tensor(
      absl::FunctionRef<bool(const at::Tensor&)> predicate) const = 0;
  // Puts what `function` returns in the place of each tensor. Containers are
  // made anew, since others may hold them too.
  virtual void replace_tensors(
      absl::FunctionRef<at::Tensor(const at::Tensor&)> function) = 0;
};

}  // namespace ferry
