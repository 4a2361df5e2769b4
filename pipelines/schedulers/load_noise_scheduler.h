#pragma once

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "pipelines/schedulers/noise_scheduler.h"
#include "pipelines/schedulers/scheduler_config.h"

namespace ferry {

// Makes the NoiseScheduler that the configuration's class_name() picks. Every
// option that changes diffusers' result is honoured or refused; errors name
// where the configuration comes from and every bad key.
absl::StatusOr<std::unique_ptr<NoiseScheduler>> make_noise_scheduler(
    SchedulerConfig config);

// Reads one from diffusers' scheduler_config.json.
absl::StatusOr<std::unique_ptr<NoiseScheduler>> load_noise_scheduler(
    const std::filesystem::path& config_file);

}  // namespace ferry
