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

// The best platform that works here.
std::unique_ptr<Platform> choose_platform(const PlatformOptions& options) {
  auto cuda = make_cuda_platform(options.cuda);
  if (cuda.ok()) return *std::move(cuda);
  // A machine without a GPU is nothing to worry about.
  const LogLevel level =
      absl::IsNotFound(cuda.status()) ? LogLevel::kInfo : LogLevel::kWarning;
  log(level, "computing on the CPU", {{"no_cuda", cuda.status().message()}});
  return std::make_unique<CpuPlatform>();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Platform>> get_platform(
    const PlatformOptions& options) {
  if (options.name == "auto") return choose_platform(options);
  if (options.name == "cpu") return std::make_unique<CpuPlatform>();
  if (options.name == "simulated") {
    const std::vector<std::string> problems = problems_of(options.simulated);
    if (!problems.empty()) {
      return absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
    }
    return std::make_unique<SimulatedPlatform>(options.simulated);
  }
  if (options.name == "cuda") {
    auto cuda = make_cuda_platform(options.cuda);
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
