#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pipelines/testing/tiny_pipeline_options.h"

namespace ferry {

// Writes a complete pipeline package, of 300 kB without ballast and with random
// but fixed weights, into `directory`, which is made. Pictures are 16 to 128
// pixels wide and high, in steps of 8; 32 by default, in 4 steps.
absl::Status write_tiny_pipeline(const std::filesystem::path& directory,
                                 const TinyPipelineOptions& options);

// Values of TinyPipelineOptions::state.
std::vector<std::string> tiny_state_kinds();

}  // namespace ferry
