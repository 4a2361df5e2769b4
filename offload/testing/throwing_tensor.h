#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <new>

namespace ferry {

// LibTorch's tensor, but that it throws, once, when it is given other data.
class ThrowingTensorImpl final : public c10::TensorImpl {
 public:
  explicit ThrowingTensorImpl(const at::Tensor& like)
      : TensorImpl(c10::Storage(like.storage()), like.key_set(), like.dtype()) {
    set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  }

  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& other) override {
    if (throws) {
      throws = false;
      throw std::bad_alloc();
    }
    TensorImpl::shallow_copy_from(other);
  }

  bool throws = false;
};

inline at::Tensor make_throwing_tensor(const at::Tensor& like) {
  return at::detail::make_tensor<ThrowingTensorImpl>(like);
}

// The next time that the tensor is given other data.
inline void throw_once(const at::Tensor& tensor) {
  static_cast<ThrowingTensorImpl*>(tensor.unsafeGetTensorImpl())->throws = true;
}

}  // namespace ferry
