#pragma once

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "offload/written_state.h"

namespace ferry {

// What the objects of a pipeline hold: every attribute of every module and
// class object, and every list and dict that these reach, however deep. A list
// that two attributes hold stays one list.
//
// Tensors are kept as the objects that they are; their values are
// WrittenState's. But for those that only this class sees: scalars among the
// constants of graphs, which tracing makes of tensors and traced methods may
// write, and keys of dicts.
//
// Compares rather than trusts an analysis: whatever a method changed in
// whatever way goes back.
//
// Ownership: shares the objects with the modules.
// Threads: not thread-safe; confined to the worker's step thread.
class AttributeSnapshot {
 public:
  // Before hook points are inserted: they are constants of graphs, too.
  // `is_placed` says which tensors somebody else brings back.
  AttributeSnapshot(const torch::jit::Module& root,
                    absl::FunctionRef<bool(const at::Tensor&)> is_placed);

  // Before the first method runs.
  void keep() { tensors_beside_->keep(); }
  // Brings everything back; OK, since it is on the host. Throws without memory.
  absl::Status restore();

 private:
  friend class AttributeReader;

  struct Object {
    c10::intrusive_ptr<c10::ivalue::Object> object;
    std::vector<c10::IValue> slots;
  };
  struct List {
    c10::List<c10::IValue> list;
    std::vector<c10::IValue> items;
  };
  struct Dict {
    c10::Dict<c10::IValue, c10::IValue> dict;
    std::vector<std::pair<c10::IValue, c10::IValue>> entries;
  };
  // What autograd knows of a tensor.
  struct Gradient {
    at::Tensor tensor;
    bool is_required = false;
  };

  std::vector<Object> objects_;
  std::vector<List> lists_;
  std::vector<Dict> dicts_;
  std::vector<Gradient> gradients_;
  // Those that nobody else brings back.
  std::unique_ptr<WrittenState> tensors_beside_;
};

}  // namespace ferry
