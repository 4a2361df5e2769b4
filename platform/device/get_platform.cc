#include "platform/device/get_platform.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "platform/device/cpu/cpu_platform.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/simulated/simulated_platform.h"

namespace ferry {

absl::StatusOr<std::unique_ptr<Platform>> get_platform(
    const PlatformOptions& options) {
  if (options.name == "auto" || options.name == "cpu") {
    return std::make_unique<CpuPlatform>();
  }
  if (options.name == "simulated") {
    const std::vector<std::string> problems = problems_of(options.simulated);
    if (!problems.empty()) {
      return absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
    }
    return std::make_unique<SimulatedPlatform>(options.simulated);
  }
  if (options.name == "cuda") {
    return absl::UnimplementedError(
        "platform: this build has no \"cuda\"; there are \"auto\", \"cpu\" and "
        "\"simulated\"");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("platform: \"", options.name,
                   "\" is unknown; there are \"auto\", \"cpu\", \"cuda\" and "
                   "\"simulated\""));
}

}  // namespace ferry
