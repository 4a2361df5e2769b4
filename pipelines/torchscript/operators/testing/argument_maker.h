#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <vector>

#include "pipelines/torchscript/operators/testing/argument_seeds.h"

namespace ferry {

// Arguments of this operator that are known to fit: see operator_samples.txt.
std::vector<std::vector<std::string>> argument_samples(const std::string& key);

// Data types that tensors have: conversions to the type that a tensor has
// already may return the tensor itself.
const std::vector<at::ScalarType>& dtypes_of_tensors();

// Arguments that an operator may accept: tensors of small sizes that tend to
// fit together, numbers near to zero, strings that some operator knows.
// Contiguous tensors and views, conjugated and negated ones, sparse and
// quantized ones; no two of them share memory. nullopt: an argument has a type
// that cannot be made, e.g. a class. Throws what LibTorch throws.
std::optional<torch::jit::Stack> make_arguments(
    const c10::FunctionSchema& schema, const ArgumentSeeds& seeds);

}  // namespace ferry
