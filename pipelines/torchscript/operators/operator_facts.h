#pragma once

#include <ATen/core/function_schema.h>

#include <string>
#include <vector>

namespace ferry {

// What LibTorch's operators do with the memory of their arguments beyond what
// their schemas declare. Schemas are not the whole truth: aten::einsum may
// return a view of its argument, and aten::batch_norm writes the running
// statistics in training mode, and neither schema says so.
//
// operator_facts.txt holds what calls with very many arguments have shown, for
// each operator that LibTorch registers. It only adds to schemas: what is
// declared there counts besides. The calls are made on the processor; what an
// operator is made of is the same on every device, and those that only CUDA has
// are unknown.
class OperatorFacts {
 public:
  // The names of arguments that a result (or another argument, as a list that
  // is appended to) may share memory with, and of those that are written.
  OperatorFacts(std::vector<std::string> returned,
                std::vector<std::string> written)
      : returned_(std::move(returned)), written_(std::move(written)) {}

  bool may_return(const c10::Argument& argument) const;
  bool may_write(const c10::Argument& argument) const;
  // Neither of it, whatever the argument.
  bool returns_fresh_memory() const { return returned_.empty(); }
  bool leaves_arguments_alone() const { return written_.empty(); }

 private:
  std::vector<std::string> returned_;
  std::vector<std::string> written_;
};

// "aten::add.Tensor": an operator's name and overload.
std::string operator_key(const c10::FunctionSchema& schema);

// nullptr: nothing is known of the operator. It may share memory with and write
// every argument. So it is with operators that could not be called, that
// return objects, that work on the world or on autograd's state, and with those
// of other libraries. Any thread may call it; what it returns lives for ever.
const OperatorFacts* find_operator_facts(const c10::FunctionSchema& schema);

// The keys of all operators that the table was made for, known or not.
std::vector<std::string> operators_of_the_table();

}  // namespace ferry
