#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <c10/core/Layout.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "pipelines/torchscript/operators/testing/argument_seeds.h"

namespace ferry {

// What the tensors of one call have in common.
struct Scene {
  at::ScalarType dtype = at::kFloat;
  // Tensors have types of their own.
  bool mixed_types = false;
  // 0 random, 1 zeros, 2 ones, 3 ascending, 4 of both signs
  size_t values = 0;
  size_t dims = 2;
  int64_t size = 2;
  // Some sizes are 1.
  bool ragged = false;
  // All tensors are contiguous.
  bool contiguous = false;
  at::Layout layout = at::kStrided;
  bool quantized = false;
  size_t list_length = 2;
  bool defaults = false;
  // In percent.
  size_t none = 40;
  bool generic_are_tensors = true;
  bool gradients = false;
};

Scene make_scene(const c10::FunctionSchema& schema, const ArgumentSeeds& seeds);

// Makes the tensors of one call. Throws what LibTorch throws. One thread.
class TensorMaker {
 public:
  // Both must outlive it.
  TensorMaker(const c10::FunctionSchema& schema, const Scene& scene)
      : schema_(schema), scene_(scene) {}

  // What follows are tensors of the argument `name`; `types` decides about
  // their data types and values.
  void begin_argument(const std::string& name, uint64_t types);

  // Of any layout; its sizes fit the argument's name.
  at::Tensor tensor(Draws* draws);
  // Contiguous, or one of several kinds of views.
  at::Tensor strided(const std::vector<int64_t>& sizes, at::ScalarType dtype,
                     Draws* draws);

 private:
  std::vector<int64_t> sizes(Draws* draws);
  at::ScalarType dtype();
  at::Tensor dense(at::IntArrayRef sizes, at::ScalarType dtype);

  const c10::FunctionSchema& schema_;
  const Scene& scene_;
  // Of the argument that is being made.
  Draws types_{0};
  std::string name_;
};

}  // namespace ferry
