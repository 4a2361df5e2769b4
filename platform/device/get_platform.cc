#include "platform/device/get_platform.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "platform/device/cpu/cpu_platform.h"

namespace ferry {

absl::StatusOr<std::unique_ptr<Platform>> get_platform(
    const PlatformOptions& options) {
  if (options.name == "auto" || options.name == "cpu") {
    return std::make_unique<CpuPlatform>();
  }
  if (options.name == "cuda") {
    return absl::UnimplementedError(
        "platform: this build has no \"cuda\"; there are \"auto\" and \"cpu\"");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("platform: \"", options.name,
                   "\" is unknown; there are \"auto\", \"cpu\" and \"cuda\""));
}

}  // namespace ferry
