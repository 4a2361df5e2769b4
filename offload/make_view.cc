#include "offload/make_view.h"

#include <ATen/ops/empty.h>

#include <cstddef>

#include "platform/base/check.h"

namespace ferry {

at::Tensor make_view(const at::Tensor& tensor, const c10::Storage& storage,
                     int64_t storage_offset) {
  const at::Tensor view =
      at::empty({0}, tensor.options().device(storage.device()));
  c10::TensorImpl& impl = *view.unsafeGetTensorImpl();
  impl.set_storage_keep_dtype(storage);
  impl.set_sizes_and_strides(tensor.sizes(), tensor.strides(), storage_offset);
  view._set_conj(tensor.is_conj());
  view._set_neg(tensor.is_neg());
  return view;
}

void set_data_of_all(absl::Span<const at::Tensor> tensors,
                     absl::Span<const at::Tensor> views) {
  FERRY_CHECK_EQ(tensors.size(), views.size());
  std::vector<at::Tensor> before;
  before.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    before.push_back(tensor.variable_data());
  }
  size_t moved = 0;
  try {
    for (; moved < tensors.size(); ++moved) {
      tensors[moved].set_data(views[moved]);
    }
  } catch (...) {
    while (moved > 0) {
      --moved;
      tensors[moved].set_data(before[moved]);
    }
    throw;
  }
}

}  // namespace ferry
