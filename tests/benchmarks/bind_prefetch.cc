#include "tests/benchmarks/bind_prefetch.h"

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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
// Some seconds in all: a shared machine runs at half its speed for many
// milliseconds at a time, and nothing makes it faster than it is.
constexpr int kRounds = 80;

OffloadConfig layers_of_dit() {
  OmniDiffusionConfig config;
  DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
  compact.mode = "layer";
  compact.components = std::vector<std::string>{"dit"};
  return *OffloadConfig::from_od_config(config);
}

// Microseconds of each block of a round, in order.
std::vector<double> run_round(TimedModule& module) {
  std::vector<double> times;
  times.reserve(size_t{kPasses} * kBlocks);
  for (int pass = 0; pass < kPasses; ++pass) {
    const absl::Status status = module.run_pass([&](absl::Duration time) {
      if (pass >= 2) times.push_back(absl::ToDoubleMicroseconds(time));
    });
    require(status.ok(), status.message());
  }
  std::sort(times.begin(), times.end());
  return times;
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
  std::vector<std::vector<double>> rounds;
  for (int round = 0; round < kRounds; ++round) {
    rounds.push_back(run_round(module));
  }
  require(backend.disable().ok(), "offloading cannot be disabled");
  std::sort(rounds.begin(), rounds.end(),
            [](const auto& a, const auto& b) { return median(a) < median(b); });
  std::cerr << absl::StrFormat("medians of rounds from %.2f to %.2f us\n",
                               median(rounds.front()), median(rounds.back()));
  const std::vector<double>& times = rounds.front();
  report("bind_prefetch_host_us", median(times), "us",
         absl::StrCat("24 tensors a block, fake CUDA API, 50th percentile of "
                      "the least disturbed of ",
                      kRounds, " rounds; at most 3"));
  report("bind_prefetch_host_us_p99", times[times.size() * 99 / 100], "us",
         "the same, 99th percentile");
}

}  // namespace ferry
