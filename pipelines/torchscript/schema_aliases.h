#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>

#include <cstddef>

namespace ferry {

// What an operator's schema says about the memory of its arguments and
// results. Refers to the schema.
class SchemaAliases {
 public:
  explicit SchemaAliases(const c10::FunctionSchema& schema) : schema_(schema) {}

  // Whether tensors of the argument are written: Tensor(a!), Tensor(a!)[].
  bool writes(size_t argument) const;
  // Whether a list or dict among the arguments is changed, t[](a!), so that
  // the other arguments may be in it afterwards.
  bool fills_a_container() const;
  // Whether the result may share memory with the argument. Counts operators
  // that return a view without saying so.
  bool may_return(size_t argument, size_t result) const;

 private:
  const c10::FunctionSchema& schema_;
};

// False for numbers, strings and the like, and containers of them.
bool may_hold_tensors(const c10::Type& type);

}  // namespace ferry
