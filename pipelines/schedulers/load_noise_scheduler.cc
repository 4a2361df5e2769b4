#include "pipelines/schedulers/load_noise_scheduler.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipelines/schedulers/euler_discrete.h"
#include "pipelines/schedulers/flow_match_euler_discrete.h"
#include "pipelines/schedulers/scheduler_config.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

using Factory =
    absl::StatusOr<std::unique_ptr<NoiseScheduler>> (*)(SchedulerConfig);

struct Entry {
  const char* class_name;
  Factory factory;
};

// Every NoiseScheduler, by diffusers' class name.
constexpr Entry kNoiseSchedulers[] = {
    {"EulerDiscreteScheduler", make_euler_discrete},
    {"FlowMatchEulerDiscreteScheduler", make_flow_match_euler_discrete},
};

}  // namespace

absl::StatusOr<std::unique_ptr<NoiseScheduler>> load_noise_scheduler(
    const std::filesystem::path& config_file) {
  ASSIGN_OR_RETURN(SchedulerConfig config, SchedulerConfig::load(config_file));
  std::vector<std::string> names;
  for (const Entry& entry : kNoiseSchedulers) {
    if (config.class_name() == entry.class_name) {
      return entry.factory(std::move(config));
    }
    names.push_back(entry.class_name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      config_file.string(), ": _class_name is ", config.class_name(),
      "; supported are ", absl::StrJoin(names, ", ")));
}

}  // namespace ferry
