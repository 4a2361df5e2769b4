#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/base/clock.h"
#include "platform/device/device.h"
#include "platform/device/memory_info.h"
#include "platform/device/platform.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/device/simulated/simulated_device_options.h"

namespace ferry {

// A GPU's rules on the CPU: tensors are LibTorch's CPU tensors, weights on the
// "device" are those in the arenas of its SimulatedDevice. Activations are
// LibTorch's and do not count against the device's memory.
//
// Threads: thread-safe.
class SimulatedPlatform final : public Platform {
 public:
  // Options and clock: as SimulatedDevice requires them.
  explicit SimulatedPlatform(const SimulatedDeviceOptions& options,
                             const Clock& clock = Clock::real())
      : device_(options, clock) {}

  std::string name() const override { return "simulated"; }
  std::string torch_device() const override { return "cpu"; }
  absl::StatusOr<MemoryInfo> memory_info() const override {
    return device_.memory_info();
  }
  bool supports_cpu_offload() const override { return true; }
  std::string offload_unsupported_reason() const override { return ""; }
  Device* device() override { return &device_; }
  absl::Status synchronize() override { return device_.synchronize(); }
  void empty_cache() override { device_.empty_cache(); }

  // What tests ask and switch.
  SimulatedDevice& simulated_device() { return device_; }

 private:
  SimulatedDevice device_;
};

}  // namespace ferry
