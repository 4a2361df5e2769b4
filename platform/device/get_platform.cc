#include "platform/device/get_platform.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "platform/base/logging.h"
#include "platform/device/cpu/cpu_platform.h"
#include "platform/device/cuda/make_cuda_platform.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/simulated/simulated_platform.h"

namespace ferry {
namespace {

// The GPU, or the CPU where there is none at all: what all ranks of a machine
// find alike. One that lacks something is not passed over in silence.
absl::StatusOr<std::unique_ptr<Platform>> choose_platform(
    const PlatformOptions& options, MakeCudaPlatform make_cuda) {
  auto cuda = make_cuda(options.cuda);
  if (cuda.ok()) return cuda;
  if (!absl::IsNotFound(cuda.status())) {
    return absl::Status(
        cuda.status().code(),
        absl::StrCat("platform: auto: ", cuda.status().message(),
                     "; \"cpu\" computes without a GPU"));
  }
  log_info("computing on the CPU", {{"no_cuda", cuda.status().message()}});
  return std::make_unique<CpuPlatform>();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Platform>> get_platform(
    const PlatformOptions& options) {
  return get_platform(options, make_cuda_platform);
}

absl::StatusOr<std::unique_ptr<Platform>> get_platform(
    const PlatformOptions& options, MakeCudaPlatform make_cuda) {
  if (options.name == "auto") return choose_platform(options, make_cuda);
  if (options.name == "cpu") return std::make_unique<CpuPlatform>();
  if (options.name == "simulated") {
    const std::vector<std::string> problems = problems_of(options.simulated);
    if (!problems.empty()) {
      return absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
    }
    return std::make_unique<SimulatedPlatform>(options.simulated);
  }
  if (options.name == "cuda") {
    auto cuda = make_cuda(options.cuda);
    if (cuda.ok()) return cuda;
    return absl::Status(
        cuda.status().code(),
        absl::StrCat("platform: cuda: ", cuda.status().message()));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("platform: \"", options.name,
                   "\" is unknown; there are \"auto\", \"cpu\", \"cuda\" and "
                   "\"simulated\""));
}

}  // namespace ferry
