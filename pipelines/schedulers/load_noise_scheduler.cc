#include "pipelines/schedulers/load_noise_scheduler.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipelines/schedulers/ddim.h"
#include "pipelines/schedulers/dpm_solver_multistep.h"
#include "pipelines/schedulers/euler_ancestral_discrete.h"
#include "pipelines/schedulers/euler_discrete.h"
#include "pipelines/schedulers/flow_match_euler_discrete.h"
#include "pipelines/schedulers/unipc_multistep.h"
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
    {"CogVideoXDDIMScheduler", make_cogvideox_ddim},
    {"DDIMScheduler", make_ddim},
    {"DPMSolverMultistepScheduler", make_dpm_solver_multistep},
    {"EulerAncestralDiscreteScheduler", make_euler_ancestral_discrete},
    {"EulerDiscreteScheduler", make_euler_discrete},
    {"FlowMatchEulerDiscreteScheduler", make_flow_match_euler_discrete},
    {"UniPCMultistepScheduler", make_unipc_multistep},
};

}  // namespace

absl::StatusOr<std::unique_ptr<NoiseScheduler>> make_noise_scheduler(
    SchedulerConfig config) {
  if (config.class_name().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(config.origin(), ": has no _class_name (a string)"));
  }
  std::vector<std::string> names;
  for (const Entry& entry : kNoiseSchedulers) {
    if (config.class_name() == entry.class_name) {
      return entry.factory(std::move(config));
    }
    names.push_back(entry.class_name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      config.origin(), ": the class (_class_name) is ", config.class_name(),
      "; supported are ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<std::unique_ptr<NoiseScheduler>> load_noise_scheduler(
    const std::filesystem::path& config_file) {
  ASSIGN_OR_RETURN(SchedulerConfig config, SchedulerConfig::load(config_file));
  return make_noise_scheduler(std::move(config));
}

}  // namespace ferry
