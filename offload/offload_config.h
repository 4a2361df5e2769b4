#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ferry {

// How weights are ferried. At most one strategy owns a pipeline.
enum class OffloadStrategy {
  // Everything stays on the device.
  kNone,
  // Components exclude each other on the device.
  kModelLevel,
  // Blocks are streamed through a few device slots.
  kLayerWise,
  // As kLayerWise, with each block's host image sharded over the ranks, or
  // with blocks that stay resident.
  kDistributedLayerWise,
};

// As reports write it: none, model_level, layer_wise, distributed_layer_wise.
absl::string_view to_string(OffloadStrategy strategy);

// What the operator asked of offloading. A value, checked when it is made.
struct OffloadConfig {
  enum class Mode {
    // Offload when the platform can and the weights do not fit.
    kAuto,
    kNone,
    // Asks for kModelLevel.
    kModule,
    // Asks for kLayerWise.
    kLayer,
  };
  Mode mode = Mode::kAuto;

  // Takes "auto" or "" (both kAuto), "none", "module", "layer". Anything else
  // is INVALID_ARGUMENT, and names `offload.mode` and what is allowed.
  static absl::StatusOr<OffloadConfig> from_mode(absl::string_view mode);
};

// As from_mode takes it.
absl::string_view to_string(OffloadConfig::Mode mode);

}  // namespace ferry
