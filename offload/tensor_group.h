#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace ferry {

// A tensor object of a pipeline, with a dotted path to it from the root.
struct NamedTensor {
  std::string path;
  at::Tensor tensor;
};

// Tensors that move together.
struct TensorGroup {
  // Whose they are, for errors: transformer.blocks.3.
  std::string owner;
  std::vector<NamedTensor> tensors;
};

}  // namespace ferry
