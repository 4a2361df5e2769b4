#include "tests/benchmarks/host_memory.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"
#include "tests/benchmarks/host_bytes.h"
#include "tests/benchmarks/measurement.h"
#include "tests/support/daemon.h"
#include "tests/support/error_details.h"
#include "tests/support/files.h"
#include "tests/support/generate_call.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

// 528 MB in all.
constexpr int kBlocks = 24;
constexpr int64_t kBlockBytes = 22'000'000;
constexpr std::chrono::milliseconds kPeriod(2);

// Looks again and again, on a thread of its own.
class PeakSampler {
 public:
  PeakSampler(pid_t pid, std::string weights)
      : pid_(pid), weights_(std::move(weights)), thread_([this] { run(); }) {}
  ~PeakSampler() { stop(); }
  PeakSampler(const PeakSampler&) = delete;
  PeakSampler& operator=(const PeakSampler&) = delete;

  // Bytes.
  int64_t stop() EXCLUDES_LOCK(mutex_) {
    {
      MutexLock lock(&mutex_);
      stopped_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    return peak_;
  }
  int samples() const { return samples_; }
  absl::Duration longest_period() const { return longest_period_; }

 private:
  void run() EXCLUDES_LOCK(mutex_) {
    absl::Duration last = Clock::real().monotonic();
    MutexLock lock(&mutex_);
    while (!stopped_) {
      mutex_.unlock();
      peak_ = std::max(peak_, read_host_bytes(pid_, weights_).sum());
      const absl::Duration now = Clock::real().monotonic();
      longest_period_ = std::max(longest_period_, now - last);
      last = now;
      ++samples_;
      mutex_.lock();
      if (!stopped_) changed_.wait_for(&mutex_, kPeriod);
    }
  }

  const pid_t pid_;
  const std::string weights_;
  // Of the thread, until it has ended.
  int64_t peak_ = 0;
  int samples_ = 0;
  absl::Duration longest_period_;

  Mutex mutex_;
  CondVar changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

struct Measured {
  HostBytes loaded;
  int64_t peak = 0;
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
  PeakSampler sampler(pid, package);
  require(daemon.wait_until_ready(),
          absl::StrCat("ferryd does not get ready: ", daemon.log()));
  Measured measured;
  measured.peak = sampler.stop();
  std::cerr << absl::StrFormat(
      "%d samples, at most %.1f ms apart\n", sampler.samples(),
      absl::ToDoubleMilliseconds(sampler.longest_period()));
  generate(daemon);
  measured.loaded = read_host_bytes(pid, package);
  const v1::Pipeline pipeline = daemon.get_pipeline("pipelines/bench");
  for (const v1::ComponentReport& component : pipeline.offload().components()) {
    measured.weight_bytes += component.bytes();
  }
  return measured;
}

}  // namespace

void measure_host_memory() {
  const Measured small = measure(make_package({"--code_only"}));
  const Measured large =
      measure(make_package({"--code_only", absl::StrCat("--blocks=", kBlocks),
                            absl::StrCat("--ballast_bytes=", kBlockBytes)}));
  const auto weights =
      static_cast<double>(large.weight_bytes - small.weight_bytes);
  require(weights >= 500e6, "the model is too small");
  std::cerr << absl::StrFormat(
      "%.1f MB of weights: %.1f MB in host arenas, %.1f MB of mapped files, "
      "%.1f MB of other memory, of which %.1f MB without weights\n",
      weights / 1e6, large.loaded.arenas / 1e6, large.loaded.files / 1e6,
      large.loaded.anonymous / 1e6, small.loaded.anonymous / 1e6);
  report("host_bytes_ratio",
         static_cast<double>(large.loaded.sum() - small.loaded.sum()) / weights,
         "ratio", "bytes of the weights, 528 MB; at most 1.02");
  report("load_peak_ratio",
         static_cast<double>(large.peak - small.loaded.sum()) / weights,
         "ratio", "the same, the most while it loads; at most 1.10");
}

}  // namespace ferry
