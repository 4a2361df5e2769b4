#include "offload/explain_choice.h"

#include "absl/strings/str_cat.h"
#include "platform/base/saturating_math.h"

namespace ferry {
namespace {

std::string explain_automatic(OffloadStrategy chosen, int64_t weight_bytes,
                              int64_t free_bytes, int64_t usable_bytes) {
  const std::string numbers =
      absl::StrCat("all weights are ", weight_bytes, " bytes, and of ",
                   free_bytes, " free bytes ", usable_bytes,
                   " may hold weights, the rest is left to activations");
  switch (chosen) {
    case OffloadStrategy::kNone:
      return absl::StrCat("everything fits: ", numbers);
    case OffloadStrategy::kLayerWise:
    case OffloadStrategy::kDistributedLayerWise:
      return absl::StrCat("the least streaming that fits: ", numbers);
    case OffloadStrategy::kModelLevel:
      break;
  }
  return absl::StrCat("only components that take turns fit: ", numbers);
}

}  // namespace

std::string explain_choice(const OffloadConfig& asked,
                           const OffloadConfig& chosen,
                           const ResolvedPlan& plan, int64_t free_bytes,
                           int64_t usable_bytes) {
  if (asked.is_automatic()) {
    int64_t weight_bytes = 0;
    for (const StoragePlacement& placement : plan.storages) {
      weight_bytes =
          saturating_add(weight_bytes, align_for_image(placement.bytes));
    }
    std::string reason = explain_automatic(chosen.strategy(), weight_bytes,
                                           free_bytes, usable_bytes);
    if (plan.skip_reason) absl::StrAppend(&reason, "; ", *plan.skip_reason);
    return reason;
  }
  if (plan.skip_reason) return *plan.skip_reason;
  if (!asked.offload_enabled()) {
    return "not asked for: all weights are on the device";
  }
  if (asked.memory_budget_bytes()) {
    return absl::StrCat("asked for, with as many resident blocks as fit into ",
                        *asked.memory_budget_bytes(), " bytes");
  }
  if (asked.is_distributed() && asked.resident_layers() > 0) {
    return absl::StrCat("asked for, with ", asked.resident_layers(),
                        " resident blocks");
  }
  return "asked for";
}

}  // namespace ferry
