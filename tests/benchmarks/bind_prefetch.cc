#include "tests/benchmarks/bind_prefetch.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "offload/placement_backend.h"
#include "platform/device/cuda/testing/fake_cuda_platform.h"
#include "tests/benchmarks/measurement.h"
#include "tests/benchmarks/timed_module.h"

namespace ferry {
namespace {

constexpr int kBlocks = 24;
constexpr int kTensors = 24;
// Small: the fake API copies at once, on the host's own time.
constexpr int64_t kBytes = int64_t{kTensors} * 256;
constexpr int kPasses = 400;

OffloadConfig layers_of_dit() {
  OmniDiffusionConfig config;
  DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
  compact.mode = "layer";
  compact.components = std::vector<std::string>{"dit"};
  return *OffloadConfig::from_od_config(config);
}

}  // namespace

void measure_bind_prefetch() {
  FakeCudaPlatform platform;
  TimedModule module(
      std::vector<TimedBlock>(kBlocks, {kBytes, absl::ZeroDuration()}),
      kTensors);
  PlacementBackend backend(platform, layers_of_dit(), {});
  const absl::Status enabled = backend.enable(module);
  require(enabled.ok(), enabled.message());
  std::vector<double> times;
  times.reserve(size_t{kPasses} * kBlocks);
  for (int pass = 0; pass < kPasses; ++pass) {
    const absl::Status status = module.run_pass([&](absl::Duration time) {
      if (pass >= 2) times.push_back(absl::ToDoubleMicroseconds(time));
    });
    require(status.ok(), status.message());
  }
  require(backend.disable().ok(), "offloading cannot be disabled");
  std::sort(times.begin(), times.end());
  report("bind_prefetch_host_us", median(times), "us",
         "24 tensors a block, fake CUDA API, 50th percentile; at most 3");
  report("bind_prefetch_host_us_p99", times[times.size() * 99 / 100], "us",
         "the same, 99th percentile");
}

}  // namespace ferry
