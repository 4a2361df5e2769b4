#include "offload/offload_config.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace ferry {

absl::string_view to_string(OffloadStrategy strategy) {
  switch (strategy) {
    case OffloadStrategy::kNone:
      return "none";
    case OffloadStrategy::kModelLevel:
      return "model_level";
    case OffloadStrategy::kLayerWise:
      return "layer_wise";
    case OffloadStrategy::kDistributedLayerWise:
      return "distributed_layer_wise";
  }
  return "unknown";
}

absl::string_view to_string(OffloadConfig::Mode mode) {
  switch (mode) {
    case OffloadConfig::Mode::kAuto:
      return "auto";
    case OffloadConfig::Mode::kNone:
      return "none";
    case OffloadConfig::Mode::kModule:
      return "module";
    case OffloadConfig::Mode::kLayer:
      return "layer";
  }
  return "unknown";
}

absl::StatusOr<OffloadConfig> OffloadConfig::from_mode(absl::string_view mode) {
  if (mode.empty()) return OffloadConfig{Mode::kAuto};
  for (Mode known : {Mode::kAuto, Mode::kNone, Mode::kModule, Mode::kLayer}) {
    if (mode == to_string(known)) return OffloadConfig{known};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "offload.mode: \"", absl::CHexEscape(mode.substr(0, 64)),
      "\" is unknown; allowed are \"auto\", \"none\", \"module\", \"layer\""));
}

}  // namespace ferry
