#include "offload/clone_shared_outputs.h"

#include <ATen/core/Tensor.h>

#include "offload/clone_span.h"

namespace ferry {

int64_t clone_shared_outputs(const BlockImage& image, ForwardOutput& output) {
  const auto is_shared = [&](const at::Tensor& tensor) {
    return image.holds(tensor);
  };
  if (!output.any_tensor(is_shared)) return 0;
  int64_t clones = 0;
  output.replace_tensors([&](const at::Tensor& tensor) {
    if (!is_shared(tensor)) return tensor;
    ++clones;
    return clone_span(tensor);
  });
  return clones;
}

}  // namespace ferry
