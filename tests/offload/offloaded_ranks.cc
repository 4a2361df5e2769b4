#include "tests/offload/offloaded_ranks.h"

#include <utility>

#include "platform/device/simulated/simulated_device_options.h"
#include "platform/distributed/in_process/in_process_group.h"
#include "platform/distributed/simulated/simulated_communicator.h"
#include "platform/distributed/testing/rank_threads.h"

namespace ferry {
namespace {

SimulatedDeviceOptions device_options(int64_t memory_bytes) {
  SimulatedDeviceOptions options;
  options.memory_bytes = memory_bytes;
  options.latency = absl::ZeroDuration();
  options.check = true;
  return options;
}

}  // namespace

OffloadedRanks::OffloadedRanks(const RankPolicy& policy)
    : ranks_(static_cast<size_t>(policy.ranks)) {
  InProcessGroup control(policy.ranks);
  InProcessGroup weights(policy.ranks);
  for (size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    rank.platform = std::make_unique<SimulatedPlatform>(
        device_options(policy.memory_bytes));
    PlacementBackendOptions options;
    options.slots = policy.slots;
    if (policy.ranks > 1) {
      rank.group.control = control.join(static_cast<int>(r));
      rank.group.weights = std::make_unique<SimulatedCommunicator>(
          rank.platform->simulated_device(), weights.join(static_cast<int>(r)),
          SimulatedCommunicatorOptions());
      options.group = &rank.group;
    }
    rank.backend = std::make_unique<PlacementBackend>(*rank.platform,
                                                      policy.config, options);
  }
}

OffloadedRanks::~OffloadedRanks() { close(); }

void OffloadedRanks::close() {
  {
    MutexLock lock(&mutex_);
    participants_.clear();
  }
  for (Rank& rank : ranks_) rank.backend.reset();
}

absl::Status OffloadedRanks::enable(
    const std::vector<OffloadableModule*>& modules) {
  std::vector<absl::Status> statuses(ranks_.size());
  const auto enable_one = [&](int r) {
    const auto index = static_cast<size_t>(r);
    statuses[index] = ranks_[index].backend->enable(*modules[index]);
  };
  if (ranks_.size() == 1) {
    enable_one(0);
  } else {
    run_ranks(static_cast<int>(ranks_.size()), enable_one);
  }
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  MutexLock lock(&mutex_);
  participants_.clear();
  for (Rank& rank : ranks_) {
    WaveParticipant* const participant = rank.backend->wave_participant();
    if (participant == nullptr) continue;
    participants_.push_back(participant);
    participant->set_wave_wanted([this](int64_t wave) { want_wave(wave); });
  }
  last_wave_ = 0;
  return absl::OkStatus();
}

absl::Status OffloadedRanks::disable() {
  std::vector<absl::Status> statuses(ranks_.size());
  if (ranks_.size() == 1) return ranks_[0].backend->disable();
  run_ranks(static_cast<int>(ranks_.size()), [&](int r) {
    const auto index = static_cast<size_t>(r);
    statuses[index] = ranks_[index].backend->disable();
  });
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::vector<std::string> OffloadedRanks::violations() {
  std::vector<std::string> all;
  for (Rank& rank : ranks_) {
    for (std::string& text : rank.platform->simulated_device().violations()) {
      all.push_back(std::move(text));
    }
  }
  return all;
}

int64_t OffloadedRanks::device_bytes_in_use() {
  int64_t bytes = 0;
  for (Rank& rank : ranks_) {
    bytes += rank.platform->simulated_device().stats().device.bytes_in_use;
  }
  return bytes;
}

void OffloadedRanks::want_wave(int64_t last_wave) {
  MutexLock lock(&mutex_);
  if (last_wave != last_wave_) return;
  ++last_wave_;
  for (WaveParticipant* const participant : participants_) {
    participant->start_wave(last_wave_);
  }
}

}  // namespace ferry
