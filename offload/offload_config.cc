#include "offload/offload_config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "platform/base/check.h"

namespace ferry {

absl::string_view to_string(OffloadStrategy strategy) {
  switch (strategy) {
    case OffloadStrategy::kNone:
      return "none";
    case OffloadStrategy::kModelLevel:
      return "model_level";
    case OffloadStrategy::kLayerWise:
      return "layer_wise";
    case OffloadStrategy::kDistributedLayerWise:
      return "distributed_layer_wise";
  }
  return "unknown";
}

absl::string_view to_string(OffloadComponent component) {
  switch (component) {
    case OffloadComponent::kDit:
      return "dit";
    case OffloadComponent::kTextEncoder:
      return "text_encoder";
    case OffloadComponent::kVae:
      return "vae";
  }
  return "unknown";
}

absl::string_view to_string(WeightTransfer transfer) {
  switch (transfer) {
    case WeightTransfer::kRankLocal:
      return "rank-local";
    case WeightTransfer::kAllGather:
      return "allgather";
  }
  return "unknown";
}

OffloadConfig OffloadConfig::with_strategy(OffloadStrategy strategy) const {
  FERRY_CHECK(is_automatic_);
  OffloadConfig config = *this;
  config.strategy_ = strategy;
  config.is_automatic_ = false;
  return config;
}

OffloadConfig OffloadConfig::with_allgather() const {
  FERRY_CHECK(is_automatic_);
  OffloadConfig config = with_strategy(OffloadStrategy::kDistributedLayerWise);
  config.gathered_ = {OffloadComponent::kDit};
  return config;
}

OffloadConfig OffloadConfig::with_default_headroom(int64_t bytes) const {
  OffloadConfig config = *this;
  if (!config.headroom_bytes_) config.headroom_bytes_ = bytes;
  return config;
}

WeightTransfer OffloadConfig::weight_transfer(
    OffloadComponent component) const {
  return gathered_.count(component) > 0 ? WeightTransfer::kAllGather
                                        : WeightTransfer::kRankLocal;
}

bool OffloadConfig::any_allgather() const {
  return is_distributed() &&
         std::any_of(components_.begin(), components_.end(),
                     [&](OffloadComponent c) { return uses_allgather(c); });
}

std::string OffloadConfig::describe() const {
  std::string line =
      absl::StrCat("strategy ", is_automatic_ ? "auto" : to_string(strategy_));
  if (is_explicit_) {
    std::vector<std::string> parts;
    for (OffloadComponent component : components_) {
      parts.push_back(absl::StrCat(to_string(component), " ",
                                   to_string(weight_transfer(component))));
    }
    absl::StrAppend(&line, ", components ", absl::StrJoin(parts, " + "));
  }
  if (resident_layers_ > 0) {
    absl::StrAppend(&line, ", resident_layers ", resident_layers_);
  }
  if (memory_budget_bytes_) {
    absl::StrAppend(&line, ", memory_budget_bytes ", *memory_budget_bytes_);
  }
  if (headroom_bytes_) {
    absl::StrAppend(&line, ", headroom_bytes ", *headroom_bytes_);
  }
  absl::StrAppend(&line, ", pin_memory ", pin_memory_ ? "true" : "false",
                  ", group_size ", group_size_, ", effective_group_size ",
                  effective_group_size());
  if (use_hsdp()) absl::StrAppend(&line, ", HSDP");
  return line;
}

}  // namespace ferry
