#include "tests/benchmarks/host_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "platform/base/check.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"
#include "tests/benchmarks/measurement.h"
#include "tests/support/daemon.h"
#include "tests/support/error_details.h"
#include "tests/support/files.h"
#include "tests/support/generate_call.h"
#include "tests/support/host_bytes.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

// 528 MB in all.
constexpr int kBlocks = 24;
constexpr int64_t kBlockBytes = 22'000'000;
constexpr std::chrono::milliseconds kPeriod(1);
// 99 of 100 samples must not be farther apart; a load that was disturbed is
// measured again.
constexpr absl::Duration kLongestPeriod = absl::Milliseconds(5);
constexpr int kLoads = 3;
// The two ways to look must agree to within this part of the weights.
constexpr double kTolerance = 0.005;

HostBytes sample(pid_t pid) {
  const std::optional<HostBytes> bytes = sample_host_bytes(pid);
  require(bytes.has_value(),
          "cannot see the worker's mapped files; it takes root or "
          "CAP_CHECKPOINT_RESTORE");
  return *bytes;
}

// Looks again and again, on a thread of its own.
class PeakSampler {
 public:
  explicit PeakSampler(pid_t pid) : pid_(pid), thread_([this] { run(); }) {}
  ~PeakSampler() { stop(); }
  PeakSampler(const PeakSampler&) = delete;
  PeakSampler& operator=(const PeakSampler&) = delete;

  // Bytes. What follows is to be asked for after it.
  int64_t stop() EXCLUDES_LOCK(mutex_) {
    {
      MutexLock lock(&mutex_);
      stopped_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    std::sort(periods_.begin(), periods_.end());
    return peak_;
  }
  size_t samples() const { return periods_.size(); }
  // So far apart are `part` of the samples at most. REQUIRES: samples() > 0.
  absl::Duration period(double part) const {
    FERRY_CHECK(!periods_.empty());
    return periods_[static_cast<size_t>(
        part * static_cast<double>(periods_.size() - 1))];
  }

 private:
  void run() EXCLUDES_LOCK(mutex_) {
    // Of this thread: it must get its turn while the worker is busy. Whoever
    // may not ask for that looks less often on a busy machine.
    (void)setpriority(PRIO_PROCESS, 0, -20);
    absl::Duration last = Clock::real().monotonic();
    MutexLock lock(&mutex_);
    while (!stopped_) {
      {
        MutexUnlock unlock(&mutex_);
        if (const auto bytes = sample_host_bytes(pid_)) {
          peak_ = std::max(peak_, bytes->sum());
          const absl::Duration now = Clock::real().monotonic();
          periods_.push_back(now - last);
          last = now;
        }
      }
      if (!stopped_) changed_.wait_for(&mutex_, kPeriod);
    }
  }

  const pid_t pid_;
  // Of the thread, until it has ended.
  int64_t peak_ = 0;
  std::vector<absl::Duration> periods_;

  Mutex mutex_;
  CondVar changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

struct Measured {
  // At rest, seen in both ways.
  HostBytes loaded;
  HostBytes sampled;
  // The most of the samples while it was loaded; how far they were apart.
  int64_t peak = 0;
  absl::Duration usual_period;
  absl::Duration longest_period;
  int64_t weight_bytes = 0;
};

void generate(Daemon& daemon) {
  v1::GenerateRequest request = make_request();
  request.mutable_spec()->set_num_inference_steps(2);
  GenerateCall call(daemon.generation(), request, {});
  const grpc::Status& status = call.finish();
  require(status.ok(), absl::StrCat("Generate: ", describe(status)));
}

// A worker that streams the package.
Measured measure(const std::string& package) {
  const std::string config = make_directory("config") + "/server.txtpb";
  write_file(config,
             absl::StrCat("pipelines { name: \"bench\" path: \"", package,
                          "\" offload { mode: \"layer\" components: "
                          "\"dit\" } }\n"));
  Daemon::Options options;
  options.flags = {absl::StrCat("--config=", config), "--platform=simulated"};
  Daemon daemon(options);
  const pid_t pid = daemon.wait_for_worker();
  require(pid != 0, absl::StrCat("no worker: ", daemon.log()));
  sample(pid);
  PeakSampler sampler(pid);
  require(daemon.wait_until_ready(),
          absl::StrCat("ferryd does not get ready: ", daemon.log()));
  Measured measured;
  measured.peak = sampler.stop();
  measured.usual_period = sampler.period(0.99);
  measured.longest_period = sampler.period(1);
  std::cerr << absl::StrFormat(
      "%d samples; 99 %% at most %.1f ms apart, all %.1f ms\n",
      sampler.samples(), absl::ToDoubleMilliseconds(measured.usual_period),
      absl::ToDoubleMilliseconds(measured.longest_period));
  generate(daemon);
  measured.loaded = read_host_bytes(pid, package);
  measured.sampled = sample(pid);
  measured.weight_bytes = weight_bytes(daemon.get_pipeline("pipelines/bench"));
  return measured;
}

Measured measure_large() {
  const std::string package =
      make_package({"--code_only", absl::StrCat("--blocks=", kBlocks),
                    absl::StrCat("--ballast_bytes=", kBlockBytes)});
  Measured measured = measure(package);
  for (int i = 1; i < kLoads && measured.usual_period > kLongestPeriod; ++i) {
    measured = measure(package);
  }
  return measured;
}

}  // namespace

void measure_host_memory() {
  const Measured small = measure(make_package({"--code_only"}));
  const Measured large = measure_large();
  const auto weights =
      static_cast<double>(large.weight_bytes - small.weight_bytes);
  require(weights >= 500e6, "the model is too small");
  std::cerr << absl::StrFormat("%.1f MB of weights: %s; without them: %s\n",
                               weights / 1e6, describe(large.loaded),
                               describe(small.loaded));
  const auto loaded =
      static_cast<double>(large.loaded.sum() - small.loaded.sum());
  report("host_bytes_ratio", loaded / weights, "ratio",
         "bytes of the weights, 528 MB; at most 1.02");
  const auto sampled =
      static_cast<double>(large.sampled.sum() - small.sampled.sum());
  std::cerr << absl::StrFormat(
      "at rest: %.1f MB by the mappings' shares, %.1f MB by a sample\n",
      loaded / 1e6, sampled / 1e6);
  require(std::abs(sampled - loaded) <= kTolerance * weights,
          "the samples do not measure what they should");
  require(large.usual_period <= kLongestPeriod,
          "the samples were too far apart; is the machine busy?");
  report("load_peak_ratio",
         static_cast<double>(large.peak - small.sampled.sum()) / weights,
         "ratio",
         absl::StrFormat(
             "the same, the most while it loads; 99 %% of the samples at most "
             "%.1f ms apart, all %.1f ms; at most 1.10",
             absl::ToDoubleMilliseconds(large.usual_period),
             absl::ToDoubleMilliseconds(large.longest_period)));
}

}  // namespace ferry
