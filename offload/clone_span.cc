#include "offload/clone_span.h"

#include <ATen/ops/empty.h>

#include "offload/image_layout.h"
#include "offload/make_view.h"

namespace ferry {

at::Tensor clone_span(const at::Tensor& tensor) {
  const auto bytes_options =
      tensor.options().dtype(c10::kByte).requires_grad(false);
  const int64_t bytes = span_bytes(tensor);
  const at::Tensor copy = at::empty({bytes}, bytes_options);
  const at::Tensor source =
      at::empty({0}, bytes_options)
          .set_(tensor.storage(),
                tensor.storage_offset() *
                    static_cast<int64_t>(tensor.element_size()),
                {bytes}, {1});
  copy.copy_(source);
  return make_view(tensor, copy.storage(), 0);
}

}  // namespace ferry
