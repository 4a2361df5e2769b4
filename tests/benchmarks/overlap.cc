#include "tests/benchmarks/overlap.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "offload/offload_config.h"
#include "offload/offload_stats.h"
#include "offload/omni_diffusion_config.h"
#include "offload/placement_backend.h"
#include "offload/resolved_plan.h"
#include "platform/base/clock.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/simulated/simulated_platform.h"
#include "tests/benchmarks/leading_policy.h"
#include "tests/benchmarks/measurement.h"
#include "tests/benchmarks/timed_module.h"

namespace ferry {
namespace {

constexpr int kBlocks = 24;
constexpr int kTensors = 8;
constexpr int kPasses = 9;
constexpr int kRuns = 5;
// Of interleaved_vs_leading, whose reference does not count when something
// else kept the machine busy.
constexpr int kMaxRuns = 20;
constexpr int64_t kBytes = 192 << 10;
constexpr absl::Duration kCompute = absl::Milliseconds(2);

OffloadConfig with_resident_layers(int resident) {
  OmniDiffusionConfig config;
  DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
  compact.mode = "layer";
  compact.components = std::vector<std::string>{"dit"};
  if (resident > 0) {
    compact.layer_options = {{"dit", "rank-local", resident}};
  }
  return *OffloadConfig::from_od_config(config);
}

// A link on which copies of `bytes` in `copies` pieces take `time`.
SimulatedDeviceOptions link(int64_t bytes, int copies, absl::Duration time) {
  SimulatedDeviceOptions options;
  options.memory_bytes = int64_t{256} << 20;
  options.h2d_gbps = static_cast<double>(bytes) /
                     absl::ToDoubleNanoseconds(time - copies * options.latency);
  return options;
}

absl::Duration compute_of(const std::vector<TimedBlock>& blocks) {
  absl::Duration sum;
  for (const TimedBlock& block : blocks) sum += block.compute;
  return sum;
}

// Blocks under the product's backend.
class Offloaded {
 public:
  Offloaded(const std::vector<TimedBlock>& blocks, int resident,
            const SimulatedDeviceOptions& options)
      : platform_(options),
        module_(blocks, kTensors),
        backend_(platform_, with_resident_layers(resident), {}) {
    require(backend_.enable(module_).ok(), "offloading cannot be enabled");
  }
  ~Offloaded() { (void)backend_.disable(); }
  Offloaded(const Offloaded&) = delete;
  Offloaded& operator=(const Offloaded&) = delete;

  int64_t streamed_bytes() const { return backend_.stats().streamed_bytes; }
  int slots() const { return backend_.stats().slots; }
  int streamed_blocks() const {
    const PlannedStack& stack = backend_.plan()->components[0].stacks[0];
    return static_cast<int>(stack.blocks.size()) -
           static_cast<int>(stack.resident_blocks());
  }

  // Median, after a warm pass.
  absl::Duration pass_time() {
    require(module_.run_pass().ok(), "a pass failed");
    std::vector<absl::Duration> times;
    absl::Duration start = Clock::real().monotonic();
    for (int pass = 0; pass < kPasses; ++pass) {
      require(module_.run_pass().ok(), "a pass failed");
      const absl::Duration end = Clock::real().monotonic();
      times.push_back(end - start);
      start = end;
    }
    std::sort(times.begin(), times.end());
    return times[kPasses / 2];
  }

 private:
  SimulatedPlatform platform_;
  TimedModule module_;
  PlacementBackend backend_;
};

// Time of a pass where the copies of what streams take x times as long as all
// compute.
absl::Duration pass_time(const std::vector<TimedBlock>& blocks, int resident,
                         double x) {
  // What streams, any link tells.
  const Offloaded any(blocks, resident, SimulatedDeviceOptions());
  return Offloaded(blocks, resident,
                   link(any.streamed_bytes(), any.streamed_blocks(),
                        x * compute_of(blocks)))
      .pass_time();
}

// Measured time ÷ max(C, X), the median of some runs.
double overlap(const std::vector<TimedBlock>& blocks, int resident, double x) {
  const absl::Duration bound = std::max(1.0, x) * compute_of(blocks);
  std::vector<double> ratios;
  for (int run = 0; run < kRuns; ++run) {
    ratios.push_back(absl::FDivDuration(pass_time(blocks, resident, x), bound));
  }
  std::sort(ratios.begin(), ratios.end());
  std::cerr << absl::StrFormat(
      "x %.1f, %d of %d blocks resident: %.3f to "
      "%.3f\n",
      x, resident, static_cast<int>(blocks.size()), ratios.front(),
      ratios.back());
  return median(ratios);
}

std::vector<TimedBlock> equal_blocks() {
  return std::vector<TimedBlock>(kBlocks, {kBytes, kCompute});
}

}  // namespace

void measure_overlap() {
  for (const double x : {0.5, 1.0, 2.0}) {
    for (const int percent : {0, 25, 33, 67}) {
      const int resident =
          static_cast<int>(std::lround(kBlocks * percent / 100.0));
      report(absl::StrCat("overlap_x", x, "_resident", percent),
             overlap(equal_blocks(), resident, x), "ratio",
             absl::StrCat("max(compute, copies) as they are set, ", kBlocks,
                          " blocks; at most ", x == 1.0 ? "1.05" : "1.03"));
    }
  }
}

void measure_overlap_unequal() {
  constexpr int kDouble = 19;
  constexpr int kSingle = 38;
  constexpr int64_t kPart = 512;
  const TimedBlock large = {680 * kPart, kCompute};
  // Compute goes with the bytes.
  const TimedBlock small = {283 * kPart, kCompute * 283 / 680};
  std::vector<TimedBlock> blocks(kDouble, large);
  blocks.insert(blocks.end(), kSingle, small);
  const int resident = static_cast<int>(std::lround(0.4 * (kDouble + kSingle)));
  report("overlap_unequal_x1", overlap(blocks, resident, 1), "ratio",
         "max(compute, copies) as they are set, 19 blocks of 680 and 38 of 283 "
         "parts, 60 % streamed; at most 1.05");
}

void measure_interleaved_vs_leading() {
  // Copies of all blocks would take three times as long as their compute, and
  // those of the third that streams as long as all of it.
  constexpr int kResident = kBlocks * 2 / 3;
  constexpr double kX = 3;
  LeadingPolicy leading;
  leading.blocks = kBlocks;
  leading.bytes = kBytes;
  leading.compute = kCompute;
  // The same memory: what we spend on a third slot, it spends on a block.
  leading.resident =
      kResident - 2 +
      Offloaded(equal_blocks(), kResident, SimulatedDeviceOptions()).slots();
  std::vector<double> ratios;
  for (int run = 0; run < kMaxRuns && ratios.size() < kRuns; ++run) {
    const absl::Duration ours = pass_time(equal_blocks(), kResident, kX / 3);
    const absl::Duration copy_time = kX * kCompute;
    const int copies = kBlocks - leading.resident;
    const auto theirs = leading_pass_time(
        leading, link(copies * kBytes, copies, copies * copy_time), kPasses);
    require(theirs.ok(), "the other policy failed");
    const absl::Duration expected =
        leading.resident * kCompute + copies * copy_time;
    const double off = absl::FDivDuration(*theirs, expected);
    std::cerr << absl::StrFormat(
        "ours %.1f ms; theirs %.1f ms, %.3f of what it should take\n",
        absl::ToDoubleMilliseconds(ours), absl::ToDoubleMilliseconds(*theirs),
        off);
    if (std::abs(off - 1) > 0.03) continue;
    ratios.push_back(absl::FDivDuration(*theirs, ours));
  }
  require(ratios.size() == kRuns,
          "the other policy does not take the time that it should");
  report("interleaved_vs_leading", median(ratios), "ratio",
         "first blocks resident, one fetched ahead, in the same memory, two "
         "thirds resident, all copies ÷ compute = 3; at least 1.4");
}

}  // namespace ferry
