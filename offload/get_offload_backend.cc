#include "offload/get_offload_backend.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ferry {

absl::StatusOr<OffloadBackendChoice> get_offload_backend(
    const OffloadConfig& config, const Platform& platform) {
  if (config.mode == OffloadConfig::Mode::kNone) {
    return OffloadBackendChoice{nullptr, "not asked for"};
  }
  if (!platform.supports_cpu_offload()) {
    return OffloadBackendChoice{
        nullptr,
        absl::StrCat("offload unsupported on platform ", platform.name(), ": ",
                     platform.offload_unsupported_reason())};
  }
  return absl::UnimplementedError(
      absl::StrCat("offload.mode: \"", to_string(config.mode),
                   "\" has no backend on platform ", platform.name(),
                   "; \"none\" runs without offloading"));
}

}  // namespace ferry
