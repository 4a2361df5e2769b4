#pragma once

#include <c10/core/ScalarType.h>
#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "pipelines/torchscript/weight_sources.h"

namespace ferry {

// Whether a parameter stands for a tensor of its type and shape: one element
// that is expanded with strides of zero, or a tensor on the meta device. What
// has one element or none has its values.
bool is_placeholder(const at::Tensor& parameter);

// Gives every placeholder among the parameters of `root` its tensor from the
// files of `sources`, mapped and not to be written. A parameter of one element
// gets one when the files hold it. Tied parameters become one tensor. Buffers
// keep their values, also when a file holds the same name.
//
// A stored tensor has the parameter's shape and type; with a `compute_dtype`
// any floating type will do for a floating one, and stays what it is.
//
// INVALID_ARGUMENT names everything that is wrong, with the file and the
// tensor; `archive` is what it calls the module's file. Then no parameter has
// changed. Throws what LibTorch throws.
absl::Status attach_weights(const std::filesystem::path& package,
                            const WeightSources& sources,
                            std::optional<c10::ScalarType> compute_dtype,
                            const std::string& archive,
                            const torch::jit::Module& root);

}  // namespace ferry
