#pragma once

#include <string>

#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/simulated/simulated_device_options.h"

namespace ferry {

// Which platform, and how it is set up.
struct PlatformOptions {
  // "cpu"; "cuda"; "simulated", a device with its own memory and copy engines
  // that the CPU pretends to be; or "auto", the best one that works here.
  std::string name = "auto";
  // Used by "cuda" and "auto".
  CudaDeviceOptions cuda = {};
  // Used by "simulated".
  SimulatedDeviceOptions simulated = {};
};

}  // namespace ferry
