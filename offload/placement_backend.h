#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "offload/distributed/choose_transfer.h"
#include "offload/distributed/rank_group.h"
#include "offload/distributed/transfer_rates.h"
#include "offload/host_memory_left.h"
#include "offload/offload_backend.h"
#include "offload/offload_config.h"
#include "offload/offloadable_module.h"
#include "offload/placed_weights.h"
#include "offload/placement_plan.h"
#include "offload/preflight.h"
#include "offload/resolved_plan.h"
#include "offload/wave_participant.h"
#include "platform/device/platform.h"

namespace ferry {

struct PlacementBackendOptions {
  // Blocks of a ring that are on the device at a time, where the policy does
  // not decide; at least 1. Unset: 2, so that the next block is copied while
  // one runs; of what is gathered 3, if they fit (choose_slots.h).
  std::optional<int> slots;
  // What the host has left. What the tensors hold now comes back as they are
  // packed.
  HostMemoryQuery host_memory = nullptr;
  // The ranks that share weights, by gathering them or in the memory of their
  // host; null for a rank that shares none. Outlives the backend.
  RankGroup* group = nullptr;
};

// Every strategy, for one rank or for a group of ranks that share weights.
//
//   layer_wise              each DiT has a ring of blocks, each declared stack
//                           of an encoder has one; everything else is resident
//   distributed_layer_wise  as layer_wise, and some blocks of DiTs stay: a
//                           number, or what fits into a memory budget
//   model_level             the selected components share memory for the
//                           largest of them; one comes with one copy when it
//                           is called, and stays until another one is: all
//                           steps of a loop, all tiles of a decode
//   none                    everything is resident
//
// Nothing is ever copied back, since the host keeps the masters, but for
// written state when it is disabled. In a group, blocks that the policy gathers
// are cut into shares (GatheredWeights); enable() and disable() are then calls
// that all ranks make, and an error of one is an error of all. What was shared
// is lost when the group fails: enable() is FAILED_PRECONDITION from there on.
// If the group has a file for images, what is not gathered is on their host
// once, until it is disabled; enable() is a call of all ranks then, too. The
// next one is without that file.
// An automatic policy becomes the first of
// none, distributed_layer_wise and model_level that fits. Where blocks are
// streamed then, a group whose devices are joined measures what is faster, to
// gather all blocks, or that each rank copies those that do not stay
// (choose_transfer.h). If it gathers, confirm() measures compute too; what is
// not worth it, or fails, is not given back, and the group gathers nothing any
// more. A policy that says to gather is tried by confirm(), too, and what fails
// then is its error.
//
//   disabled ──enable() OK──► enabled ──disable() OK──► disabled
//
// Errors, ownership and threads: as OffloadBackend. INVALID_ARGUMENT: the plan
// cannot be resolved. RESOURCE_EXHAUSTED says what each phase needs.
// REQUIRES: the platform supports CPU offload; the group has as many ranks as
// the policy gathers over.
class PlacementBackend final : public OffloadBackend {
 public:
  PlacementBackend(Platform& platform, OffloadConfig config,
                   PlacementBackendOptions options);

  OffloadStrategy strategy() const override { return effective_.strategy(); }
  absl::Status enable(OffloadableModule& module) override;
  absl::StatusOr<bool> confirm(absl::FunctionRef<absl::Status()> run) override;
  absl::Status disable() override { return weights_.take_down(); }
  void begin_last_step() override;
  void end_generation() override;
  absl::Status check() override;
  WaveParticipant* wave_participant() override { return weights_.engine(); }
  bool is_enabled() const override { return !weights_.is_empty(); }
  OffloadStats stats() const override { return weights_.stats(); }
  // What enable() found to be needed, and does not exceed. Valid while enabled.
  const MemoryNeeds& memory_needs() const { return needs_; }
  const ResolvedPlan* plan() const override {
    return is_enabled() ? &plan_ : nullptr;
  }
  int64_t headroom_bytes() const override {
    return is_enabled() ? effective_.headroom_bytes().value_or(0) : 0;
  }
  std::string reason() const override { return is_enabled() ? reason_ : ""; }

 private:
  // Gathering that compute may show not to be worth it.
  struct Trial {
    TransferNeeds needs;
    TransferRates rates;
    // Of the choice, without the transfer's.
    std::string reason;
  };
  // A policy and what it makes of a module.
  struct Choice {
    OffloadConfig config;
    ResolvedPlan plan;
    MemoryNeeds needs;
    std::string reason;
    // None where the choice is final.
    std::optional<Trial> trial;
  };

  // What enable() does, without the group.
  struct Decision {
    Choice choice;
    PlacementPlan plan;
  };
  // enable() and confirm(), which may throw what LibTorch throws.
  absl::Status do_enable(OffloadableModule& module);
  absl::StatusOr<bool> do_confirm(absl::FunctionRef<absl::Status()> run);
  // Whether the next enable() is a call of all ranks.
  bool is_together() const {
    return group_ != nullptr &&
           (gathers_ || may_gather() || group_->images.valid());
  }
  // Whether the ranks choose if they gather.
  bool may_gather() const {
    return config_.is_automatic() && group_ != nullptr &&
           (group_->weights != nullptr || group_->join_devices != nullptr) &&
           config_.group_size() == group_->size();
  }
  // What weights may be planned for: of a group, the least that a rank has.
  absl::StatusOr<int64_t> free_bytes() const;
  absl::StatusOr<Decision> decide(OffloadableModule& module) const;
  // Brings a module that nobody holds back to what the package says.
  absl::Status take(OffloadableModule& module) const;
  absl::StatusOr<Choice> choose(OffloadableModule& module,
                                int64_t free_bytes) const;
  absl::StatusOr<Choice> choose_automatically(OffloadableModule& module,
                                              int64_t free_bytes) const;
  // Of two that fit, by how fast weights come in either way.
  Choice choose_by_rates(Choice alone, Choice gathered,
                         const TransferRates& rates) const;
  // With a headroom, if there is none.
  OffloadConfig automatic_config(int64_t free_bytes) const;
  absl::StatusOr<Choice> choose_alone(const OffloadableModule& module,
                                      int64_t free_bytes) const;
  // Resolves a policy, chooses the resident blocks, and checks that it fits
  // into `device_bytes`.
  absl::StatusOr<Choice> try_policy(const OffloadableModule& module,
                                    const OffloadConfig& config,
                                    std::optional<int64_t> budget_bytes,
                                    int64_t device_bytes) const;

  int slots() const { return options_.slots.value_or(2); }
  // Whether enough of `device_bytes` is left to activations. (Of the device
  // alone, which is the same for all ranks.)
  bool leaves_room(const ResolvedPlan& plan, const OffloadConfig& config,
                   int64_t device_bytes) const;
  // With what is lost to the granularity of allocations.
  MemoryNeeds needs_of(const ResolvedPlan& plan,
                       const OffloadConfig& config) const;

  // What there is for the weights of a module.
  MemoryLimits memory_limits(const OffloadableModule& module,
                             int64_t device_bytes) const;
  // What the granularity of allocations may cost.
  int64_t rounding_bytes(const ResolvedPlan& plan) const;

  // Frees what a pipeline that was given up has left: what joined the devices,
  // their cached memory, and the images. A call of all ranks.
  absl::Status clear_group();
  // As rank 0: no rank can change the size of what is shared.
  absl::Status seal_images() const;
  // Lets go of what only a choice needs that is not final, or not tried yet.
  void end_choice(bool is_tried);
  // All ranks place their weights, or none does.
  absl::Status place_together(const absl::StatusOr<Decision>& decision);
  // The same, with one copy on the host of what each rank needs whole.
  absl::Status place_shared(const Decision& decision);
  absl::Status vote_on_placing(const absl::Status& mine,
                               absl::string_view digest);

  Platform& platform_;
  const OffloadConfig config_;
  const PlacementBackendOptions options_;
  // The policy says so.
  const bool gathers_;
  // Null where nothing is shared.
  RankGroup* const group_;
  // What an automatic policy has become; else the policy.
  OffloadConfig effective_;
  // Valid while enabled.
  ResolvedPlan plan_;
  std::string reason_;
  MemoryNeeds needs_;
  std::optional<Trial> trial_;
  PlacedWeights weights_;
};

}  // namespace ferry
