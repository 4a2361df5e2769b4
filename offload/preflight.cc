#include "offload/preflight.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "offload/slot_layout.h"
#include "platform/base/saturating_math.h"

namespace ferry {
namespace {

// Arenas of the host are whole pages.
constexpr int64_t kHostPage = 4096;

// Adds to a sum of bytes.
void add_to(int64_t* sum, int64_t bytes) { *sum = saturating_add(*sum, bytes); }

// Does the work of compute_memory_needs().
class Counter {
 public:
  Counter(const ResolvedPlan& plan, const OffloadConfig& config,
          const PreflightOptions& options)
      : plan_(plan), config_(config), options_(options) {
    needs_.device = {{"encode_prompt", {}}, {"denoise", {}}, {"decode", {}}};
    needs_.host.phase = "host";
  }

  MemoryNeeds run() {
    for (const StoragePlacement& placement : plan_.storages) {
      if (placement.owner == StoragePlacement::Owner::kResident) {
        add_to(&resident_, align_for_image(placement.bytes));
      }
    }
    // Shared state and written state have an image each.
    add_host(resident_);
    if (resident_ > 0) add_to(&host_, kHostPage);
    for (const PlannedComponent& component : plan_.components) add(component);
    add_gathered_slots();
    for (MemoryNeed& need : needs_.device) {
      add_item("resident", resident_, &need);
      add_item("the largest of the components that exclude each other",
               largest_, &need);
      for (const MemoryItem& ring : rings_) {
        add_item(ring.what, ring.bytes, &need);
      }
      add_item("headroom", config_.headroom_bytes().value_or(0), &need);
    }
    needs_.host.items = {
        {"images", host_},
        {"the largest image while it is packed", largest_host_}};
    return std::move(needs_);
  }

 private:
  static void add_item(std::string what, int64_t bytes, MemoryNeed* need) {
    if (bytes > 0) need->items.push_back({std::move(what), bytes});
  }

  void add_host(int64_t image_bytes) {
    const int64_t bytes = saturating_round_up(image_bytes, kHostPage);
    add_to(&host_, bytes);
    largest_host_ = std::max(largest_host_, bytes);
  }

  void add(const PlannedComponent& component) {
    add_host(component.image_bytes);
    if (component.takes_turns) {
      largest_ = std::max(largest_, component.image_bytes);
    } else {
      add_to(&resident_, component.image_bytes);
    }
    for (const PlannedStack& stack : component.stacks) {
      add_ring(component, stack);
    }
    for (const PlannedComponent& child : component.children) add(child);
  }

  void add_ring(const PlannedComponent& component, const PlannedStack& stack) {
    const int64_t ranks =
        config_.gathers(component.role) ? config_.effective_group_size() : 1;
    const int64_t slots = stack.slots > 0 ? stack.slots : options_.slots;
    // Of what each streamed block has on the host.
    std::vector<int64_t> shares;
    for (const PlannedBlock& block : stack.blocks) {
      if (block.resident) {
        add_to(&resident_, block.image_bytes);
        add_host(block.image_bytes);
        continue;
      }
      const int64_t share = share_of(block.image_bytes, ranks);
      add_host(share);
      // What all of its storages are shared by others is resident already.
      if (block.image_bytes > 0) shares.push_back(share);
    }
    if (ranks > 1) {
      gathered_slots_ =
          std::max(gathered_slots_,
                   std::min(slots, static_cast<int64_t>(shares.size())));
      for (const int64_t share : shares) {
        largest_share_ = std::max(largest_share_, share);
      }
      return;
    }
    rings_.push_back(
        {absl::StrCat("slots of ", component.path),
         plan_slots(shares, static_cast<int>(slots), stack.nests).bytes()});
  }

  // As ImageShare has it.
  static int64_t share_of(int64_t image_bytes, int64_t ranks) {
    return align_for_image(saturating_round_up(image_bytes, ranks) / ranks);
  }

  // All rings that are gathered use the same ones.
  void add_gathered_slots() {
    if (gathered_slots_ == 0) return;
    rings_.push_back({"slots of gathered blocks",
                      saturating_multiply(
                          saturating_multiply(gathered_slots_,
                                              config_.effective_group_size()),
                          largest_share_)});
    rings_.push_back(
        {"slots of shares",
         saturating_multiply(options_.shard_slots, largest_share_)});
  }

  const ResolvedPlan& plan_;
  const OffloadConfig& config_;
  const PreflightOptions options_;
  MemoryNeeds needs_;
  int64_t resident_ = 0;
  int64_t largest_ = 0;
  int64_t host_ = 0;
  int64_t largest_host_ = 0;
  int64_t gathered_slots_ = 0;
  int64_t largest_share_ = 0;
  std::vector<MemoryItem> rings_;
};

std::string describe(const MemoryNeed& need, absl::string_view memory) {
  const std::string items = absl::StrJoin(
      need.items, ", ", [](std::string* out, const MemoryItem& item) {
        absl::StrAppend(out, item.what, " ", item.bytes);
      });
  return absl::StrCat(need.phase, " needs ", need.bytes(), " bytes of ", memory,
                      " memory (", items, ")");
}

}  // namespace

int64_t MemoryNeed::bytes() const {
  int64_t sum = 0;
  for (const MemoryItem& item : items) add_to(&sum, item.bytes);
  return sum;
}

MemoryNeeds compute_memory_needs(const ResolvedPlan& plan,
                                 const OffloadConfig& config,
                                 const PreflightOptions& options) {
  return Counter(plan, config, options).run();
}

absl::Status check_memory_needs(const MemoryNeeds& needs,
                                const MemoryLimits& limits) {
  std::vector<std::string> refusals;
  for (const MemoryNeed& need : needs.device) {
    if (need.bytes() <= limits.device_free_bytes) continue;
    refusals.push_back(absl::StrCat(describe(need, "device"), ", and ",
                                    limits.device_free_bytes, " are free"));
  }
  if (needs.host.bytes() > limits.host_available_bytes) {
    refusals.push_back(absl::StrCat(
        describe(needs.host, "host"), ", and ", limits.host_available_bytes,
        " are available (", limits.host_limited_by, ")"));
  }
  if (refusals.empty()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrJoin(refusals, "; "));
}

}  // namespace ferry
