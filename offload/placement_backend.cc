#include "offload/placement_backend.h"

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "offload/choose_residents.h"
#include "offload/choose_slots.h"
#include "offload/component_role.h"
#include "offload/distributed/choose_transfer.h"
#include "offload/distributed/pass_engine.h"
#include "offload/distributed/schedule_digest.h"
#include "offload/distributed/shared_images.h"
#include "offload/distributed/start_vote.h"
#include "offload/distributed/transfer_rates.h"
#include "offload/distributed/try_passes.h"
#include "offload/explain_choice.h"
#include "offload/held_weights.h"
#include "offload/make_placement_plan.h"
#include "offload/mapped_storage.h"
#include "offload/module_tree.h"
#include "offload/plan_resolver.h"
#include "offload/preflight.h"
#include "offload/torch_status.h"
#include "offload/written_state.h"
#include "platform/base/check.h"
#include "platform/base/logging.h"
#include "platform/base/saturating_math.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// What is left to activations when nobody says how much, as a part of the
// memory: a tenth.
constexpr int64_t kHeadroomDivisor = 10;
// Free bytes of a device that does not say.
constexpr int64_t kUnknown = -1;

// Host memory that comes back when the tensors are packed. Pages of a mapped
// file are none: the system counts them as available.
int64_t held_bytes(const OffloadableModule& module) {
  std::set<const c10::StorageImpl*> storages;
  int64_t bytes = 0;
  for (const ModuleNode& node : module.tree().nodes) {
    for (const ModuleTensor& entry : node.tensors) {
      const at::Tensor& tensor = module.tensor(entry.identity);
      if (!tensor.has_storage() || tensor.is_meta()) continue;
      const auto* const storage = tensor.storage().unsafeGetStorageImpl();
      if (is_mapped(*storage) || !storages.insert(storage).second) continue;
      bytes = saturating_add(bytes, static_cast<int64_t>(storage->nbytes()));
    }
  }
  return bytes + module.written_state().kept_bytes();
}

// Blocks of DiTs that do not stay.
struct Streamed {
  int64_t blocks = 0;
  int64_t bytes = 0;
};

Streamed streamed(const ResolvedPlan& plan) {
  Streamed sum;
  const auto add = [&sum](const PlannedComponent& component) {
    for (const PlannedStack& stack : component.stacks) {
      for (const PlannedBlock& block : stack.blocks) {
        if (block.resident) continue;
        ++sum.blocks;
        sum.bytes = saturating_add(sum.bytes, block.image_bytes);
      }
    }
  };
  for (const PlannedComponent& component : plan.components) {
    if (component.role != ComponentRole::kDit) continue;
    add(component);
    for (const PlannedComponent& child : component.children) add(child);
  }
  return sum;
}

}  // namespace

PlacementBackend::PlacementBackend(Platform& platform, OffloadConfig config,
                                   PlacementBackendOptions options)
    : platform_(platform),
      config_(std::move(config)),
      options_(std::move(options)),
      gathers_(config_.effective_group_size() > 1),
      group_(options_.group),
      effective_(config_),
      weights_(platform, "offload", group_) {
  if (gathers_) {
    FERRY_CHECK(group_ != nullptr);
    FERRY_CHECK_EQ(config_.effective_group_size(), group_->size());
  }
}

absl::Status PlacementBackend::enable(OffloadableModule& module) {
  return call_torch("enable", [&] { return do_enable(module); });
}

absl::StatusOr<bool> PlacementBackend::confirm(
    absl::FunctionRef<absl::Status()> run) {
  return call_torch("confirm", [&] { return do_confirm(run); });
}

absl::Status PlacementBackend::do_enable(OffloadableModule& module) {
  if (is_enabled()) {
    return absl::FailedPreconditionError("offloading is enabled already");
  }
  if (group_ != nullptr && !group_->not_worth_it.empty()) {
    RETURN_IF_ERROR(clear_group());
  }
  // The other ranks hear of what is thrown, too.
  auto decision = call_torch("enable", [&] { return decide(module); });
  if (is_together()) {
    RETURN_IF_ERROR(place_together(decision));
  } else {
    RETURN_IF_ERROR(decision.status());
    RETURN_IF_ERROR(weights_.place(decision->plan));
  }
  Choice& choice = decision->choice;
  effective_ = std::move(choice.config);
  plan_ = std::move(choice.plan);
  reason_ = std::move(choice.reason);
  needs_ = std::move(choice.needs);
  trial_ = std::move(choice.trial);
  if (!trial_.has_value())
    end_choice(/*is_tried=*/weights_.engine() == nullptr);
  return absl::OkStatus();
}

absl::StatusOr<bool> PlacementBackend::do_confirm(
    absl::FunctionRef<absl::Status()> run) {
  if (weights_.engine() == nullptr || group_->choice == nullptr) return true;
  PassEngine& engine = *weights_.engine();
  std::optional<Trial> trial = std::exchange(trial_, std::nullopt);
  std::optional<int64_t> pass_bytes;
  if (trial.has_value()) pass_bytes = trial->needs.gathered_bytes;
  ASSIGN_OR_RETURN(const TriedPasses tried,
                   try_passes(engine, pass_bytes, run));
  TransferChoice transfer = {tried.status.ok(), ""};
  if (trial.has_value()) {
    trial->needs.compute = tried.compute;
    transfer = tried.status.ok()
                   ? choose_transfer(trial->needs, trial->rates)
                   : explain_failed_trial(trial->needs, tried.status);
  }
  RETURN_IF_ERROR(vote_on_start(
      *group_->choice, group_->start_timeout,
      transfer.gathers ? seal_images() : engine.leave(), "confirmed"));
  if (transfer.gathers) {
    if (trial.has_value()) {
      reason_ = absl::StrCat(trial->reason, "; ", transfer.reason);
    }
    end_choice(/*is_tried=*/true);
    return true;
  }
  if (!trial.has_value()) return tried.status;
  group_->not_worth_it = transfer.reason;
  return false;
}

absl::Status PlacementBackend::seal_images() const {
  if (!group_->images.valid() || group_->rank() != 0) return absl::OkStatus();
  return SharedImages::seal(group_->images.get());
}

void PlacementBackend::end_choice(bool is_tried) {
  if (group_ == nullptr) return;
  group_->images.reset();
  group_->join_devices = nullptr;
  // It holds memory of the device, and nobody will gather.
  if (config_.is_automatic() && weights_.engine() == nullptr) {
    group_->weights.reset();
  }
  if (is_tried) group_->choice.reset();
}

absl::Status PlacementBackend::clear_group() {
  // It holds device memory, and so does LibTorch of what it computed with.
  group_->weights.reset();
  platform_.device()->empty_cache();
  if (!group_->images.valid()) return absl::OkStatus();
  RETURN_IF_ERROR(vote_on_start(*group_, absl::OkStatus(), "given up"));
  const absl::Status cleared = group_->rank() == 0
                                   ? SharedImages::clear(group_->images.get())
                                   : absl::OkStatus();
  return vote_on_start(*group_, cleared, "cleared");
}

absl::Status PlacementBackend::place_together(
    const absl::StatusOr<Decision>& decision) {
  RETURN_IF_ERROR(vote_on_start(
      *group_, decision.status(),
      decision.ok() ? schedule_digest(decision->plan, group_->size()) : ""));
  if (group_->images.valid()) return place_shared(*decision);
  return vote_on_placing(weights_.place(decision->plan), "placed");
}

absl::Status PlacementBackend::place_shared(const Decision& decision) {
  const bool is_final = !decision.choice.trial.has_value();
  SharedImages images(group_->images.get(), group_->rank() == 0);
  // What rank 0 writes the others map.
  for (const bool writes : {true, false}) {
    absl::Status placed;
    if (images.writes() == writes) {
      placed = weights_.place(decision.plan, &images);
      if (placed.ok() && writes && is_final) placed = seal_images();
    }
    RETURN_IF_ERROR(vote_on_placing(placed, writes ? "written" : "mapped"));
  }
  return absl::OkStatus();
}

absl::Status PlacementBackend::vote_on_placing(const absl::Status& mine,
                                               absl::string_view digest) {
  absl::Status vote = vote_on_start(*group_, mine, digest);
  if (vote.ok()) return vote;
  weights_.abandon();
  // Some ranks may have sealed it.
  group_->images.reset();
  return vote;
}

absl::StatusOr<int64_t> PlacementBackend::free_bytes() const {
  absl::StatusOr<MemoryInfo> memory = platform_.memory_info();
  if (memory.ok()) {
    memory->free_bytes = std::max<int64_t>(
        memory->free_bytes - platform_.device()->library_bytes(), 0);
  }
  if (!is_together()) {
    RETURN_IF_ERROR(memory.status());
    return memory->free_bytes;
  }
  // An error of one is an error of all: they go on to the same calls.
  const int64_t mine = memory.ok() ? memory->free_bytes : kUnknown;
  std::vector<int64_t> all(static_cast<size_t>(group_->size()));
  RETURN_IF_ERROR(group_->control->all_gather(&mine, all.data(), sizeof(mine),
                                              group_->start_timeout));
  RETURN_IF_ERROR(memory.status());
  const auto least = std::min_element(all.begin(), all.end());
  if (*least != kUnknown) return *least;
  return absl::UnavailableError(
      absl::StrCat("rank ", least - all.begin(),
                   " cannot tell what memory its device has left"));
}

absl::StatusOr<PlacementBackend::Decision> PlacementBackend::decide(
    OffloadableModule& module) const {
  ASSIGN_OR_RETURN(const int64_t free_bytes, this->free_bytes());
  ASSIGN_OR_RETURN(Choice choice, choose(module, free_bytes));
  for (const std::string& warning : choice.plan.warnings) {
    log_warning("offload plan", {{"warning", warning}});
  }
  ASSIGN_OR_RETURN(
      PlacementPlan plan,
      make_placement_plan(module, choice.plan, choice.config, slots()));
  return Decision{std::move(choice), std::move(plan)};
}

absl::Status PlacementBackend::take(OffloadableModule& module) const {
  RETURN_IF_ERROR(check_nobody_holds(module));
  // It may have run on the host.
  return module.written_state().reset();
}

void PlacementBackend::begin_last_step() {
  if (weights_.engine() != nullptr) weights_.engine()->begin_last_step();
}

void PlacementBackend::end_generation() {
  if (weights_.engine() != nullptr) weights_.engine()->withdraw();
}

absl::Status PlacementBackend::check() {
  if (weights_.engine() != nullptr) RETURN_IF_ERROR(weights_.engine()->check());
  return platform_.device()->status();
}

absl::StatusOr<PlacementBackend::Choice> PlacementBackend::choose(
    OffloadableModule& module, int64_t free_bytes) const {
  if (config_.is_automatic()) return choose_automatically(module, free_bytes);
  RETURN_IF_ERROR(take(module));
  ASSIGN_OR_RETURN(
      Choice choice,
      try_policy(module, config_, config_.memory_budget_bytes(), free_bytes));
  choice.reason = explain_choice(config_, choice.config, choice.plan,
                                 free_bytes, free_bytes);
  return choice;
}

absl::StatusOr<PlacementBackend::Choice> PlacementBackend::choose_automatically(
    OffloadableModule& module, int64_t free_bytes) const {
  // Whatever is wrong here: other ranks wait for this one.
  absl::StatusOr<Choice> alone =
      call_torch("enable", [&]() -> absl::StatusOr<Choice> {
        RETURN_IF_ERROR(take(module));
        return choose_alone(module, free_bytes);
      });
  if (alone.ok() && group_ != nullptr && !group_->not_worth_it.empty()) {
    absl::StrAppend(&alone->reason, "; ", group_->not_worth_it);
  }
  if (!may_gather()) return alone;
  // To measure is a call of all ranks, be it for one of them.
  const bool streams = alone.ok() && alone->config.is_distributed() &&
                       streamed(alone->plan).bytes > 0;
  ASSIGN_OR_RETURN(
      const uint64_t some_streams,
      group_->control->all_reduce_or(streams ? 1 : 0, group_->start_timeout));
  if (some_streams == 0) return alone;
  if (group_->join_devices != nullptr) {
    RETURN_IF_ERROR(std::exchange(group_->join_devices, nullptr)());
    if (group_->weights == nullptr) {
      if (alone.ok()) {
        absl::StrAppend(&alone->reason,
                        "; each rank copies for itself: the "
                        "devices cannot be joined");
      }
      return alone;
    }
    // What joins them takes memory of the devices.
    ASSIGN_OR_RETURN(const int64_t left, this->free_bytes());
    if (left != free_bytes) return choose_automatically(module, left);
  }
  const absl::StatusOr<TransferRates> rates =
      measure_transfer_rates(*platform_.device(), *group_, free_bytes);
  RETURN_IF_ERROR(group_->control->status());
  RETURN_IF_ERROR(group_->weights->status());
  if (!streams) return alone;
  absl::StatusOr<Choice> gathered =
      try_policy(module, automatic_config(free_bytes).with_allgather(),
                 std::nullopt, free_bytes);
  const absl::Status& obstacle =
      gathered.ok() ? rates.status() : gathered.status();
  if (!obstacle.ok()) {
    absl::StrAppend(&alone->reason,
                    "; each rank copies for itself: ", obstacle.message());
    return alone;
  }
  return choose_by_rates(*std::move(alone), *std::move(gathered), *rates);
}

PlacementBackend::Choice PlacementBackend::choose_by_rates(
    Choice alone, Choice gathered, const TransferRates& rates) const {
  const Streamed blocks = streamed(gathered.plan);
  TransferNeeds needs;
  needs.ranks = group_->size();
  needs.local_bytes = streamed(alone.plan).bytes;
  needs.gathered_bytes = blocks.bytes;
  needs.blocks = blocks.blocks;
  const TransferChoice transfer = choose_transfer(needs, rates);
  if (transfer.gathers && group_->choice != nullptr) {
    gathered.trial = Trial{needs, rates, alone.reason};
  }
  gathered.reason = alone.reason;
  Choice& chosen = transfer.gathers ? gathered : alone;
  absl::StrAppend(&chosen.reason, "; ", transfer.reason);
  return std::move(chosen);
}

OffloadConfig PlacementBackend::automatic_config(int64_t free_bytes) const {
  return config_.with_default_headroom(free_bytes / kHeadroomDivisor);
}

absl::StatusOr<PlacementBackend::Choice> PlacementBackend::choose_alone(
    const OffloadableModule& module, int64_t free_bytes) const {
  const OffloadConfig config = automatic_config(free_bytes);
  const int64_t budget_bytes =
      std::max<int64_t>(free_bytes - *config.headroom_bytes(), 0);
  for (const OffloadStrategy strategy :
       {OffloadStrategy::kNone, OffloadStrategy::kDistributedLayerWise,
        OffloadStrategy::kModelLevel}) {
    const bool streams = strategy == OffloadStrategy::kDistributedLayerWise;
    auto choice = try_policy(
        module, config.with_strategy(strategy),
        streams ? std::optional<int64_t>(budget_bytes) : std::nullopt,
        free_bytes);
    if (choice.ok()) {
      choice->reason = explain_choice(config_, choice->config, choice->plan,
                                      free_bytes, budget_bytes);
      return choice;
    }
    if (!absl::IsResourceExhausted(choice.status())) return choice;
  }
  // An error says by phase what the least is that streaming needs.
  ASSIGN_OR_RETURN(
      Choice choice,
      try_policy(module, config.with_strategy(OffloadStrategy::kLayerWise),
                 std::nullopt, free_bytes));
  choice.reason = explain_choice(config_, choice.config, choice.plan,
                                 free_bytes, budget_bytes);
  return choice;
}

// At most one allocation for each ring, one for what takes turns, and one for
// what is resident.
int64_t PlacementBackend::rounding_bytes(const ResolvedPlan& plan) const {
  int64_t allocations = 2;
  for (const PlannedComponent& component : plan.components) {
    allocations += static_cast<int64_t>(component.stacks.size());
    for (const PlannedComponent& child : component.children) {
      allocations += static_cast<int64_t>(child.stacks.size());
    }
  }
  return allocations * (platform_.device()->allocation_granularity() - 1);
}

absl::StatusOr<PlacementBackend::Choice> PlacementBackend::try_policy(
    const OffloadableModule& module, const OffloadConfig& config,
    std::optional<int64_t> budget_bytes, int64_t device_bytes) const {
  ASSIGN_OR_RETURN(ResolvedPlan plan,
                   resolve_offload_plan(module.tree(), config));
  RETURN_IF_ERROR(choose_residents(
      config, {slots()}, {device_bytes, budget_bytes, rounding_bytes(plan)},
      &plan));
  if (auto warning = explain_no_movement(plan)) {
    // What matters most is first.
    plan.warnings.insert(plan.warnings.begin(), *std::move(warning));
  }
  if (!options_.slots.has_value()) {
    choose_gathered_slots(
        config,
        [&](const ResolvedPlan& larger) {
          return leaves_room(larger, config, device_bytes);
        },
        &plan);
  }
  MemoryNeeds needs = needs_of(plan, config);
  RETURN_IF_ERROR(
      check_memory_needs(needs, memory_limits(module, device_bytes)));
  return Choice{config, std::move(plan), std::move(needs), "", std::nullopt};
}

bool PlacementBackend::leaves_room(const ResolvedPlan& plan,
                                   const OffloadConfig& config,
                                   int64_t device_bytes) const {
  const MemoryNeeds needs = needs_of(
      plan, config.with_default_headroom(device_bytes / kHeadroomDivisor));
  return std::all_of(needs.device.begin(), needs.device.end(),
                     [device_bytes](const MemoryNeed& need) {
                       return need.bytes() <= device_bytes;
                     });
}

MemoryNeeds PlacementBackend::needs_of(const ResolvedPlan& plan,
                                       const OffloadConfig& config) const {
  MemoryNeeds needs = compute_memory_needs(plan, config, {slots()});
  const int64_t rounding = rounding_bytes(plan);
  for (MemoryNeed& need : needs.device) {
    need.items.push_back({"rounding", rounding});
  }
  return needs;
}

MemoryLimits PlacementBackend::memory_limits(const OffloadableModule& module,
                                             int64_t device_bytes) const {
  MemoryLimits limits;
  limits.device_free_bytes = device_bytes;
  const HostMemoryLeft host =
      options_.host_memory ? options_.host_memory() : HostMemoryLeft();
  const int64_t held = held_bytes(module);
  limits.host_available_bytes = saturating_add(host.available_bytes, held);
  limits.host_limited_by = host.limited_by;
  if (held > 0) {
    absl::StrAppend(&limits.host_limited_by, ", and ", held,
                    " that the weights hold already");
  }
  return limits;
}

}  // namespace ferry
