#pragma once

#include <ATen/core/ivalue.h>

#include "absl/functional/function_ref.h"
#include "offload/forward_output.h"

namespace ferry {

// What a TorchScript method returns, for hooks. Refers to the value.
class IValueOutput final : public ForwardOutput {
 public:
  explicit IValueOutput(c10::IValue* value) : value_(value) {}

  bool any_tensor(
      absl::FunctionRef<bool(const at::Tensor&)> predicate) const override;
  void replace_tensors(
      absl::FunctionRef<at::Tensor(const at::Tensor&)> function) override;

 private:
  c10::IValue* const value_;
};

}  // namespace ferry
