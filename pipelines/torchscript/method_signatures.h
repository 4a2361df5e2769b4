#pragma once

#include <torch/csrc/jit/api/module.h>

#include <vector>

#include "absl/status/status.h"

namespace ferry {

// What the denoising loop hands to encode_prompt for one tokenizer.
struct TokenizerInputs {
  // Whether a mask follows the ids.
  bool attention_mask = false;
};

// Checks that the root module has the four methods of a pipeline with the
// arguments and results that the loop uses. INVALID_ARGUMENT names all that
// are missing or different, with the signature that they must have.
absl::Status check_method_signatures(
    const torch::jit::Module& root,
    const std::vector<TokenizerInputs>& tokenizers);

}  // namespace ferry
