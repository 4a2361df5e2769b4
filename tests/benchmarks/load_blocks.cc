#include "tests/benchmarks/load_blocks.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "offload/placement_backend.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/simulated/simulated_platform.h"
#include "tests/benchmarks/measurement.h"
#include "tests/benchmarks/timed_module.h"

namespace ferry {
namespace {

constexpr int kBlocks = 2000;
constexpr int kTensors = 24;
constexpr int64_t kBytes = int64_t{kTensors} * 2048;
constexpr int kPairs = 9;

OffloadConfig policy(absl::string_view mode) {
  OmniDiffusionConfig config;
  DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
  compact.mode = std::string(mode);
  if (mode == "layer") compact.components = std::vector<std::string>{"dit"};
  return *OffloadConfig::from_od_config(config);
}

// Seconds until a new pipeline is placed.
double time_to_place(absl::string_view mode) {
  SimulatedDeviceOptions options;
  options.memory_bytes = kBytes * kBlocks / 2;
  SimulatedPlatform platform(options);
  TimedModule module(
      std::vector<TimedBlock>(kBlocks, {kBytes, absl::ZeroDuration()}),
      kTensors);
  PlacementBackend backend(platform, policy(mode), {});
  const absl::Time start = absl::Now();
  const absl::Status enabled = backend.enable(module);
  const absl::Duration elapsed = absl::Now() - start;
  require(enabled.ok(), enabled.message());
  require(backend.stats().streamed_bytes > 0, "nothing is streamed");
  require(backend.disable().ok(), "offloading cannot be disabled");
  return absl::ToDoubleSeconds(elapsed);
}

}  // namespace

void measure_load_blocks() {
  const std::vector<Pair> pairs = measure_pairs(
      kPairs, [] { return time_to_place("auto"); },
      [] { return time_to_place("layer"); });
  report("load_blocks_ratio", median_ratio(pairs), "ratio",
         "2,000 blocks of 24 tensors are placed by auto ÷ by layer; at most "
         "1.5");
}

}  // namespace ferry
