#pragma once

#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "pipelines/testing/tiny_pipeline_options.h"

namespace ferry {

// Writes the parameters of the root's components into safetensors files, laid
// out as diffusers does, and leaves placeholders in the root. Returns the
// manifest's weights and tied_parameters.
absl::StatusOr<std::string> move_weights_to_files(
    const std::filesystem::path& directory, const TinyPipelineOptions& options,
    const torch::jit::Module& root);

}  // namespace ferry
