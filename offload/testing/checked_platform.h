#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/linspace.h>

#include <cstring>
#include <string>
#include <vector>

#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "offload/testing/toy_module.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/simulated/simulated_platform.h"

namespace ferry {

// A small simulated device that finds every wrong order.
inline SimulatedDeviceOptions checked_device() {
  SimulatedDeviceOptions options;
  options.memory_bytes = int64_t{16} << 20;
  options.latency = absl::ZeroDuration();
  options.check = true;
  return options;
}

// Policies over the whole pipeline, as far as it declares blocks.
inline OffloadConfig layerwise_policy() {
  OmniDiffusionConfig config;
  config.enable_layerwise_offload = true;
  return *OffloadConfig::from_od_config(config);
}

// DiTs, encoders and VAEs take turns, or the first two of them.
inline OffloadConfig model_level_policy(bool with_vae) {
  OmniDiffusionConfig config;
  DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
  compact.mode = "module";
  compact.components = std::vector<std::string>{"dit", "text_encoder"};
  if (with_vae) compact.components->push_back("vae");
  return *OffloadConfig::from_od_config(config);
}

// What passes through toy components.
inline at::Tensor toy_input() {
  return at::linspace(-1, 1, 3 * kToyWidth).reshape({3, kToyWidth});
}

inline std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  return std::string(static_cast<const char*>(dense.const_data_ptr()),
                     dense.nbytes());
}

// The bytes of all tensors of a pipeline.
inline std::vector<std::string> state_of(const ToyModule& module) {
  std::vector<std::string> state;
  for (const at::Tensor& tensor : module.all_tensors()) {
    state.push_back(bytes_of(tensor));
  }
  return state;
}

// The same, when what methods wrote has gone back to what it was.
inline std::vector<std::string> package_state_of(const ToyModule& module) {
  if (!module.written_state().reset().ok()) return {};
  return state_of(module);
}

}  // namespace ferry
