#pragma once

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "pipelines/schedulers/noise_scheduler.h"

namespace ferry {

// Reads a NoiseScheduler from diffusers' scheduler_config.json, whose
// `_class_name` picks it. Every option that changes diffusers' result is
// honoured or refused; errors name the file and every bad key.
absl::StatusOr<std::unique_ptr<NoiseScheduler>> load_noise_scheduler(
    const std::filesystem::path& config_file);

}  // namespace ferry
