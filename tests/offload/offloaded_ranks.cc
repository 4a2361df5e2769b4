#include "tests/offload/offloaded_ranks.h"

#include <utility>

#include "platform/device/simulated/simulated_device_options.h"
#include "platform/distributed/in_process/in_process_group.h"
#include "platform/distributed/simulated/simulated_communicator.h"
#include "platform/distributed/testing/rank_threads.h"

namespace ferry {
namespace {

SimulatedDeviceOptions device_options(const RankPolicy& policy) {
  SimulatedDeviceOptions options;
  options.memory_bytes = policy.memory_bytes;
  options.h2d_gbps = policy.h2d_gbps;
  options.latency = absl::ZeroDuration();
  options.check = true;
  return options;
}

}  // namespace

OffloadedRanks::OffloadedRanks(const RankPolicy& policy)
    : policy_(policy), ranks_(static_cast<size_t>(policy.ranks)) {
  InProcessGroup control(policy.ranks);
  InProcessGroup weights(policy.ranks);
  InProcessGroup choice(policy.ranks);
  for (size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    rank.platform = std::make_unique<SimulatedPlatform>(device_options(policy));
    if (policy.ranks > 1) {
      const auto number = static_cast<int>(r);
      rank.group.control = control.join(number);
      rank.group.choice = choice.join(number);
      rank.group.weights = std::make_unique<SimulatedCommunicator>(
          rank.platform->simulated_device(), weights.join(number),
          SimulatedCommunicatorOptions());
    }
    make_backend(&rank);
  }
}

void OffloadedRanks::make_backend(Rank* rank) {
  PlacementBackendOptions options;
  options.slots = policy_.slots;
  if (policy_.ranks > 1) options.group = &rank->group;
  rank->backend = std::make_unique<PlacementBackend>(*rank->platform,
                                                     policy_.config, options);
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

absl::StatusOr<bool> OffloadedRanks::confirm(
    const std::function<absl::Status(int)>& run) {
  std::vector<absl::StatusOr<bool>> confirmed(ranks_.size(), true);
  run_ranks(static_cast<int>(ranks_.size()), [&](int r) {
    confirmed[static_cast<size_t>(r)] =
        backend(r).confirm([&] { return run(r); });
  });
  for (const absl::StatusOr<bool>& one : confirmed) {
    if (!one.ok()) return one.status();
  }
  for (const absl::StatusOr<bool>& one : confirmed) {
    if (*one != *confirmed[0]) return absl::InternalError("ranks disagree");
  }
  if (*confirmed[0]) return true;
  close();
  for (Rank& rank : ranks_) make_backend(&rank);
  return false;
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
