#include "platform/device/get_platform.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "platform/device/cpu/cpu_platform.h"

namespace ferry {

absl::StatusOr<std::unique_ptr<Platform>> get_platform(absl::string_view name) {
  if (name == "cpu") return std::make_unique<CpuPlatform>();
  return absl::InvalidArgumentError(
      absl::StrCat("platform: \"", name, "\" is unknown; there is \"cpu\""));
}

}  // namespace ferry
