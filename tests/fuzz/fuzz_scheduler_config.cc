#include <string>

#include "pipelines/model_index.h"
#include "pipelines/schedulers/scheduler_config.h"
#include "tests/fuzz/fuzz_targets.h"

namespace ferry {
namespace {

void check_model_index(absl::string_view input) {
  const auto index = ModelIndex::parse(input, "scheduler");
  require(index.ok() || absl::IsInvalidArgument(index.status()),
          "INVALID_ARGUMENT");
  if (!index.ok() || index->scheduler_class.empty()) return;
  require(resolve_class_name(index->scheduler_class).size() <=
              index->scheduler_class.size(),
          "a class is no longer than what names it");
}

}  // namespace

// A package's scheduler_config.json, read as a NoiseScheduler does, and its
// model_index.json.
void fuzz_scheduler_config(absl::string_view input) {
  check_model_index(input);
  auto config = SchedulerConfig::parse(std::string(input), "input");
  if (!config.ok()) {
    require(absl::IsInvalidArgument(config.status()), "INVALID_ARGUMENT");
    return;
  }
  const int64_t steps = config->get_int("num_train_timesteps", 1000, 1, 100000);
  require(steps >= 1 && steps <= 100000, "an integer is within its bounds");
  const double shift = config->get_double("shift", 1, 1e-6, 1e6);
  require(shift >= 1e-6 && shift <= 1e6, "a number is within its bounds");
  const auto terminal = config->get_optional_double("shift_terminal", 0, 1);
  require(!terminal.has_value() || (*terminal >= 0 && *terminal <= 1),
          "an optional number is within its bounds");
  config->get_bool("use_dynamic_shifting", false);
  const std::string type = config->get_choice("time_shift_type", "exponential",
                                              {"exponential", "linear"});
  require(type == "exponential" || type == "linear",
          "a choice is one of the choices");
  config->refuse("use_beta_sigmas");
  const absl::Status status = config->finish();
  require(status.ok() || absl::IsInvalidArgument(status), "INVALID_ARGUMENT");
}

}  // namespace ferry
