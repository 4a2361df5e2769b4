#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "offload/component_role.h"
#include "offload/omni_diffusion_config.h"

namespace ferry {

// How weights are ferried. At most one strategy owns a pipeline.
enum class OffloadStrategy {
  // Everything stays on the device.
  kNone,
  // Components exclude each other on the device.
  kModelLevel,
  // Blocks are streamed through a few device slots.
  kLayerWise,
  // As kLayerWise, with each block's host image sharded over the ranks, or
  // with blocks that stay resident.
  kDistributedLayerWise,
};

// What can be selected. A pipeline may have several components of a kind.
enum class OffloadComponent { kDit, kTextEncoder, kVae };

// How a block comes to the device.
enum class WeightTransfer {
  // From an image on the rank's own host.
  kRankLocal,
  // Each rank copies its share of it, and the group gathers them.
  kAllGather,
};

// As reports write it: none, model_level, layer_wise, distributed_layer_wise.
absl::string_view to_string(OffloadStrategy strategy);
// dit, text_encoder, vae.
absl::string_view to_string(OffloadComponent component);
// rank-local, allgather.
absl::string_view to_string(WeightTransfer transfer);

// The offload policy of one pipeline: one strategy, what it does to each
// component, and the group that was derived from the parallel configuration.
// A value that never changes; made once, before anything is loaded.
class OffloadConfig {
 public:
  // No offloading.
  OffloadConfig() = default;

  // Derives the policy from either form of the configuration. `compact_name`
  // is what messages call the compact form's fields by.
  //
  // INVALID_ARGUMENT with every violation: each names the field and what is
  // allowed.
  static absl::StatusOr<OffloadConfig> from_od_config(
      const OmniDiffusionConfig& config,
      absl::string_view compact_name = "diffusion_offload_config");

  OffloadStrategy strategy() const { return strategy_; }
  // The strategy is still to be chosen, when sizes are known; until then it is
  // kNone.
  bool is_automatic() const { return is_automatic_; }
  // The same policy with that strategy, no longer automatic.
  // REQUIRES: is_automatic().
  OffloadConfig with_strategy(OffloadStrategy strategy) const;

  // The same policy as distributed layerwise with gathered DiTs, no longer
  // automatic. REQUIRES: is_automatic().
  OffloadConfig with_allgather() const;

  // The same policy with that headroom, if it has none of its own.
  OffloadConfig with_default_headroom(int64_t bytes) const;

  bool offload_enabled() const { return strategy_ != OffloadStrategy::kNone; }
  // Whether blocks are streamed.
  bool offload_streams_blocks() const {
    return strategy_ == OffloadStrategy::kLayerWise || is_distributed();
  }
  bool is_distributed() const {
    return strategy_ == OffloadStrategy::kDistributedLayerWise;
  }

  // Whether components were named. If not, DiTs are selected, and the model's
  // plan decides about the others; what a model lacks is then skipped with a
  // warning in place of an error.
  bool is_explicit() const { return is_explicit_; }
  const std::set<OffloadComponent>& components() const { return components_; }
  bool selects(OffloadComponent component) const {
    return components_.count(component) > 0;
  }
  // Whether blocks of a component are streamed or staged by a layer strategy.
  bool should_offload_component(OffloadComponent component) const {
    return offload_streams_blocks() && selects(component);
  }

  WeightTransfer weight_transfer(OffloadComponent component) const;
  bool uses_allgather(OffloadComponent component) const {
    return weight_transfer(component) == WeightTransfer::kAllGather;
  }
  // Whether some selected component is gathered.
  bool any_allgather() const;

  // Blocks of a DiT that stay on the device.
  int64_t resident_layers() const { return resident_layers_; }
  // Set: resident blocks are chosen to fill it; resident_layers() is 0.
  std::optional<int64_t> memory_budget_bytes() const {
    return memory_budget_bytes_;
  }
  std::optional<int64_t> headroom_bytes() const { return headroom_bytes_; }
  bool pin_memory() const { return pin_memory_; }

  bool use_hsdp() const { return parallel_.use_hsdp; }
  const DiffusionParallelConfig& parallel_config() const { return parallel_; }
  // Ranks that the parallel configuration makes one group; at least 1.
  int64_t group_size() const { return group_size_; }
  // Whether ranks gather the blocks of components of this role.
  bool gathers(ComponentRole role) const {
    return effective_group_size() > 1 &&
           uses_allgather(role == ComponentRole::kTextEncoder
                              ? OffloadComponent::kTextEncoder
                              : OffloadComponent::kDit);
  }
  // Ranks that share block images: group_size(), or 1 when nothing is gathered.
  int64_t effective_group_size() const {
    return any_allgather() ? group_size_ : 1;
  }

  // What was asked for and has no effect, one sentence each, for the log.
  const std::vector<std::string>& notes() const { return notes_; }

  // One line of everything that was decided, for reports.
  std::string describe() const;

 private:
  friend class OffloadConfigCheck;

  OffloadStrategy strategy_ = OffloadStrategy::kNone;
  bool is_automatic_ = false;
  bool is_explicit_ = false;
  std::set<OffloadComponent> components_ = {OffloadComponent::kDit};
  // Components whose blocks are gathered.
  std::set<OffloadComponent> gathered_;
  int64_t resident_layers_ = 0;
  std::optional<int64_t> memory_budget_bytes_;
  std::optional<int64_t> headroom_bytes_;
  bool pin_memory_ = true;
  DiffusionParallelConfig parallel_;
  int64_t group_size_ = 1;
  std::vector<std::string> notes_;
};

}  // namespace ferry
