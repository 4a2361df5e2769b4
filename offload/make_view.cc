#include "offload/make_view.h"

#include <ATen/ops/empty.h>

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

}  // namespace ferry
