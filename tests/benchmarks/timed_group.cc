#include "tests/benchmarks/timed_group.h"

#include <sys/prctl.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "platform/base/status_macros.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/distributed/in_process/in_process_group.h"
#include "platform/distributed/simulated/simulated_communicator.h"
#include "platform/distributed/testing/rank_threads.h"
#include "tests/benchmarks/measurement.h"

namespace ferry {
namespace {

constexpr int kTensors = 8;
// Shares of up to four ranks are equal. Small, since the host moves the bytes
// of all ranks.
constexpr int64_t kBlockBytes = 64 << 10;

OffloadConfig policy(int ranks) {
  OmniDiffusionConfig config;
  DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
  compact.mode = "layer";
  compact.components = std::vector<std::string>{"dit"};
  if (ranks > 1) {
    compact.layer_options = {{"dit", "allgather", std::nullopt}};
  }
  config.parallel_config.data_parallel_size = ranks;
  return *OffloadConfig::from_od_config(config);
}

// On it a rank's share takes its part of the time that a block takes.
SimulatedDeviceOptions link(const TimedGroupOptions& options) {
  SimulatedDeviceOptions device;
  device.memory_bytes = int64_t{256} << 20;
  device.h2d_gbps = static_cast<double>(kBlockBytes / options.ranks) /
                    absl::ToDoubleNanoseconds(
                        options.copy_alone / options.ranks - device.latency);
  return device;
}

SimulatedCommunicatorOptions wires(const TimedGroupOptions& options) {
  SimulatedCommunicatorOptions communicator;
  const int64_t others =
      kBlockBytes / options.ranks * (int64_t{options.ranks} - 1);
  communicator.gather_gbps =
      static_cast<double>(others) / absl::ToDoubleNanoseconds(options.gather);
  return communicator;
}

}  // namespace

TimedGroup::TimedGroup(const TimedGroupOptions& options) {
  InProcessGroup control(options.ranks);
  InProcessGroup weights(options.ranks);
  for (int r = 0; r < options.ranks; ++r) {
    Rank& rank = ranks_.emplace_back();
    rank.platform = std::make_unique<SimulatedPlatform>(link(options));
    rank.module = std::make_unique<TimedModule>(
        std::vector<TimedBlock>(static_cast<size_t>(options.blocks),
                                {kBlockBytes, options.compute}),
        kTensors, ComputeKind::kElsewhere);
    if (options.ranks == 1) continue;
    rank.group.control = control.join(r);
    rank.group.weights = std::make_unique<SimulatedCommunicator>(
        rank.platform->simulated_device(), weights.join(r), wires(options));
  }
  for (Rank& rank : ranks_) {
    PlacementBackendOptions backend;
    if (options.ranks > 1) backend.group = &rank.group;
    rank.backend = std::make_unique<PlacementBackend>(
        *rank.platform, policy(options.ranks), backend);
  }
  run([this](int r) { return at(r).backend->enable(module(r)); });
  join_waves();
}

TimedGroup::~TimedGroup() {
  // One that has failed cannot be left in order.
  run_ranks(size(), [this](int r) { (void)at(r).backend->disable(); });
  MutexLock lock(&mutex_);
  participants_.clear();
}

void TimedGroup::run(const std::function<absl::Status(int rank)>& work) {
  std::vector<absl::Status> statuses(ranks_.size());
  run_ranks(size(), [&](int r) {
    // What a block computes ends at exact times.
    ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    statuses[static_cast<size_t>(r)] = work(r);
  });
  for (size_t r = 0; r < statuses.size(); ++r) {
    require(statuses[r].ok(),
            absl::StrCat("rank ", r, ": ", statuses[r].ToString()));
  }
}

absl::Status TimedGroup::run_request(int rank, int passes) {
  for (int pass = 1; pass <= passes; ++pass) {
    if (pass == passes) begin_last_step(rank);
    RETURN_IF_ERROR(run_pass(rank));
  }
  end_request(rank);
  return absl::OkStatus();
}

void TimedGroup::join_waves() {
  MutexLock lock(&mutex_);
  for (Rank& rank : ranks_) {
    WaveParticipant* const participant = rank.backend->wave_participant();
    if (participant == nullptr) continue;
    participants_.push_back(participant);
    participant->set_wave_wanted([this](int64_t wave) { want_wave(wave); });
  }
}

void TimedGroup::want_wave(int64_t last_wave) {
  MutexLock lock(&mutex_);
  if (last_wave != last_wave_) return;
  ++last_wave_;
  for (WaveParticipant* const participant : participants_) {
    participant->start_wave(last_wave_);
  }
}

}  // namespace ferry
