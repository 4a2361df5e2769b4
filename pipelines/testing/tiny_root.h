#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>

#include "pipelines/testing/tiny_pipeline_options.h"

namespace ferry {

// Number of channels inside the tiny pipeline's DiTs.
inline constexpr int kTinyWidth = 16;
// Ids that its text encoder knows.
inline constexpr int kTinyVocabulary = 64;

// A block: x + scale * tanh((x + t) weight + bias), with parameters weight and
// bias and the buffer scale. Scripted blocks of one compilation unit share
// their type and call their own method mix(); traced ones have a type each and
// a second method, forward1.
torch::jit::Module make_tiny_block(
    const std::shared_ptr<torch::jit::CompilationUnit>& unit, bool traced,
    bool forking = false);

// The root module of write_tiny_pipeline().
torch::jit::Module make_tiny_root(const TinyPipelineOptions& options);

}  // namespace ferry
