#include "tests/benchmarks/steady_state.h"

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "offload/placement_backend.h"
#include "platform/device/device_stats.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/simulated/simulated_platform.h"
#include "tests/benchmarks/allocation_counter.h"
#include "tests/benchmarks/measurement.h"
#include "tests/benchmarks/timed_module.h"

namespace ferry {
namespace {

constexpr int kBlocks = 24;
constexpr int kPasses = 20;

OffloadConfig policy() {
  OmniDiffusionConfig config;
  DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
  compact.mode = "layer";
  compact.components = std::vector<std::string>{"dit"};
  compact.layer_options = {{"dit", "rank-local", kBlocks / 3}};
  return *OffloadConfig::from_od_config(config);
}

}  // namespace

void measure_steady_state_allocations() {
  SimulatedPlatform platform((SimulatedDeviceOptions()));
  TimedModule module(
      std::vector<TimedBlock>(kBlocks, {64 << 10, absl::Microseconds(20)}), 8);
  PlacementBackend backend(platform, policy(), {});
  require(backend.enable(module).ok(), "offloading cannot be enabled");
  for (int pass = 0; pass < 2; ++pass) {
    require(module.run_pass().ok(), "a pass failed");
  }
  const DeviceStats before = platform.simulated_device().stats();
  const int64_t allocations = count_allocations();
  bool ok = true;
  for (int pass = 0; pass < kPasses; ++pass) ok &= module.run_pass().ok();
  const int64_t since = count_allocations() - allocations;
  require(ok, "a pass failed");
  const DeviceStats after = platform.simulated_device().stats();
  require(after.host_to_device.bytes > before.host_to_device.bytes,
          "nothing was streamed");
  require(backend.disable().ok(), "offloading cannot be disabled");
  report("steady_state_allocations",
         static_cast<double>(since + after.device.allocations -
                             before.device.allocations +
                             after.host.allocations - before.host.allocations),
         "allocations", "of the whole program, 20 passes of 24 blocks; 0");
}

}  // namespace ferry
