#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace ferry {

// Whether the node only builds values and takes them apart: what comes out is
// what goes in, or holds it, and nothing is written.
bool only_passes_values_on(const torch::jit::Node& node);

// What the operator of a node may do with the memory of its inputs: what its
// schema says, and what calls have shown besides (operator_facts.h). Refers to
// the node's schema.
class OperatorEffects {
 public:
  // Nothing where the operator may do anything: it is not known, it was never
  // tried, or it makes one argument share the memory of another.
  static std::optional<OperatorEffects> find(const torch::jit::Node& node);

  // The input that must be true for an operator to write statistics that its
  // schema does not mention, as those of batch_norm.
  std::optional<size_t> training_input() const;

  // Whether tensors of the argument may be written. `trains`: whether
  // training_input() may be true.
  bool writes(size_t argument, bool trains) const;
  // Whether a list or dict among the arguments is changed, t[](a!), so that
  // the other arguments may be in it afterwards.
  bool fills_a_container() const;
  // Whether the operator counts from the start of an argument's storage, beyond
  // the bytes of the tensor: as_strided with an offset.
  bool sees_storage() const { return sees_storage_; }
  // Whether the result may share memory with the argument, or hold it.
  bool may_return(size_t argument, size_t result) const;

 private:
  explicit OperatorEffects(const c10::FunctionSchema& schema)
      : schema_(schema) {}

  const c10::FunctionSchema& schema_;
  // Bit i stands for argument i, beyond what the schema says.
  uint64_t returned_ = 0;
  uint64_t written_ = 0;
  bool sees_storage_ = false;
};

}  // namespace ferry
