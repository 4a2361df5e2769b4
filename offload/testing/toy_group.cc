#include "offload/testing/toy_group.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "offload/omni_diffusion_config.h"
#include "offload/testing/checked_platform.h"
#include "platform/base/status_macros.h"
#include "platform/distributed/simulated/simulated_communicator.h"
#include "platform/distributed/testing/rank_threads.h"
#include "platform/os/shared_memory.h"
#include "platform/os/unique_fd.h"

namespace ferry {
namespace {

OffloadConfig policy_of(const ToyGroupOptions& options) {
  OmniDiffusionConfig config;
  DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
  if (options.automatic) {
    compact.mode = "auto";
    config.parallel_config.data_parallel_size = options.ranks;
    return *OffloadConfig::from_od_config(config);
  }
  compact.mode = "layer";
  compact.components = std::vector<std::string>{"dit"};
  const std::string transfer = options.gathers ? "allgather" : "rank-local";
  compact.layer_options = {{"dit", transfer, std::nullopt}};
  if (options.resident_layers > 0) {
    compact.layer_options[0].resident_layers = options.resident_layers;
  }
  if (options.toy.encoders > 0) {
    compact.components->push_back("text_encoder");
    compact.layer_options.push_back({"text_encoder", transfer, std::nullopt});
  }
  config.parallel_config.data_parallel_size = options.ranks;
  return *OffloadConfig::from_od_config(config);
}

}  // namespace

ToyGroup::ToyGroup(const ToyGroupOptions& options) : options_(options) {
  UniqueFd images;
  if (options.shares_images) images = *make_shared_memory("ferry-host");
  InProcessGroup control(options.ranks, options.control_faults);
  InProcessGroup weights(options.ranks, options.weight_faults);
  InProcessGroup choice(options.ranks, options.choice_faults);
  for (int r = 0; r < options.ranks; ++r) {
    Rank rank;
    rank.platform = std::make_unique<SimulatedPlatform>(options.device);
    rank.module = make_module();
    rank.module->set_block_time(options.block_time);
    rank.twin = make_module();
    SimulatedCommunicatorOptions communicator;
    communicator.gather_gbps = options.gather_gbps;
    communicator.timeout = options.timeout;
    rank.group.control = control.join(r);
    rank.group.weights = std::make_unique<SimulatedCommunicator>(
        rank.platform->simulated_device(), weights.join(r), communicator);
    if (options.confirms) rank.group.choice = choice.join(r);
    if (options.joins_late) leave_for_later(rank);
    rank.group.timeout = options.timeout;
    if (images.valid()) rank.group.images = UniqueFd(::dup(images.get()));
    ranks_.push_back(std::move(rank));
  }
  for (Rank& rank : ranks_) rank.backend = make_backend(rank);
}

void ToyGroup::leave_for_later(Rank& rank) {
  auto weights = std::make_shared<std::unique_ptr<Communicator>>(
      std::move(rank.group.weights));
  auto choice = std::make_shared<std::unique_ptr<HostCommunicator>>(
      std::move(rank.group.choice));
  rank.group.join_devices = [this, weights, choice, index = ranks_.size()] {
    Rank& self = ranks_[index];
    ++self.joins;
    self.group.weights = std::move(*weights);
    self.group.choice = std::move(*choice);
    return absl::OkStatus();
  };
}

ToyGroup::~ToyGroup() {
  {
    MutexLock lock(&mutex_);
    participants_.clear();
  }
  for (Rank& rank : ranks_) rank.backend.reset();
}

std::unique_ptr<ToyModule> ToyGroup::make_module() const {
  auto module = std::make_unique<ToyModule>(options_.toy);
  if (options_.unequal) {
    module->add_tensor("dit_0.blocks.1", "ballast",
                       at::arange(16'411).to(c10::kByte));
  }
  return module;
}

std::unique_ptr<PlacementBackend> ToyGroup::make_backend(Rank& rank) const {
  PlacementBackendOptions options;
  options.slots = options_.slots;
  options.group = &rank.group;
  return std::make_unique<PlacementBackend>(*rank.platform, policy_of(options_),
                                            options);
}

std::vector<absl::Status> ToyGroup::enable() {
  std::vector<absl::Status> statuses(ranks_.size());
  run_ranks(size(), [&](int r) {
    statuses[static_cast<size_t>(r)] = rank(r).backend->enable(*rank(r).module);
  });
  MutexLock lock(&mutex_);
  participants_.clear();
  for (Rank& rank : ranks_) {
    WaveParticipant* const participant = rank.backend->wave_participant();
    if (participant == nullptr) continue;
    participants_.push_back(participant);
    participant->set_wave_wanted([this](int64_t wave) { want_wave(wave); });
  }
  last_wave_ = 0;
  return statuses;
}

std::vector<absl::Status> ToyGroup::confirm(
    const std::function<absl::Status(int rank)>& run) {
  std::vector<absl::Status> statuses(ranks_.size());
  run_ranks(size(), [&](int r) {
    const absl::StatusOr<bool> confirmed =
        rank(r).backend->confirm([&] { return run(r); });
    absl::Status& status = statuses[static_cast<size_t>(r)];
    status = confirmed.status();
    if (confirmed.ok() && !*confirmed) status = place_again(rank(r));
  });
  return statuses;
}

absl::Status ToyGroup::place_again(Rank& rank) {
  {
    MutexLock lock(&mutex_);
    participants_.erase(std::remove(participants_.begin(), participants_.end(),
                                    rank.backend->wave_participant()),
                        participants_.end());
  }
  rank.backend.reset();
  rank.module = make_module();
  rank.backend = make_backend(rank);
  RETURN_IF_ERROR(rank.backend->enable(*rank.module));
  return rank.backend
      ->confirm([] { return absl::InternalError("nothing is tried again"); })
      .status();
}

std::vector<absl::Status> ToyGroup::disable() {
  std::vector<absl::Status> statuses(ranks_.size());
  run_ranks(size(), [&](int r) {
    statuses[static_cast<size_t>(r)] = rank(r).backend->disable();
  });
  return statuses;
}

bool ToyGroup::is_same(int r, size_t component, const at::Tensor& x) {
  const auto gathered = rank(r).module->run(component, x);
  const auto resident = rank(r).twin->run(component, x);
  return gathered.ok() && bytes_of(*gathered) == bytes_of(*resident);
}

void ToyGroup::expect_request(int r, int passes) {
  at::Tensor x = toy_input();
  for (int pass = 0; pass < passes; ++pass) {
    if (pass == passes - 1) rank(r).backend->begin_last_step();
    EXPECT_TRUE(is_same(r, 0, x)) << "rank " << r << ", pass " << pass;
  }
  rank(r).backend->end_generation();
}

std::vector<std::string> ToyGroup::violations() {
  std::vector<std::string> all;
  for (Rank& rank : ranks_) {
    for (std::string& text : rank.platform->simulated_device().violations()) {
      all.push_back(std::move(text));
    }
  }
  return all;
}

int64_t ToyGroup::waves() {
  MutexLock lock(&mutex_);
  return last_wave_;
}

void ToyGroup::want_wave(int64_t last_wave) {
  MutexLock lock(&mutex_);
  if (last_wave != last_wave_) return;
  ++last_wave_;
  for (WaveParticipant* const participant : participants_) {
    participant->start_wave(last_wave_);
  }
}

}  // namespace ferry
