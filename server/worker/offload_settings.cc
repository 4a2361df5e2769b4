#include "server/worker/offload_settings.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ferry/config/v1/offload_config.pb.h"
#include "offload/omni_diffusion_config.h"

namespace ferry {
namespace {

// Whether the compact form has more than a mode.
bool has_compact_fields(const config::v1::OffloadConfig& offload) {
  return !offload.components().empty() || !offload.layer_options().empty() ||
         offload.has_pin_memory() || offload.has_memory_budget_bytes() ||
         offload.has_headroom_bytes();
}

bool has_legacy_fields(const config::v1::OffloadConfig& offload) {
  return offload.has_enable_cpu_offload() ||
         offload.has_enable_layerwise_offload() ||
         offload.has_enable_distributed_layerwise_offload() ||
         offload.has_dlo_use_allgather() || offload.has_dlo_resident_layers() ||
         offload.has_pin_cpu_memory();
}

DiffusionOffloadConfig to_compact(const config::v1::OffloadConfig& offload) {
  DiffusionOffloadConfig compact;
  if (!offload.mode().empty()) compact.mode = offload.mode();
  if (!offload.components().empty()) {
    compact.components.emplace(offload.components().begin(),
                               offload.components().end());
  }
  for (const config::v1::LayerOptions& options : offload.layer_options()) {
    LayerOffloadOptions entry;
    entry.component = options.component();
    if (options.has_weight_transfer()) {
      entry.weight_transfer = options.weight_transfer();
    }
    if (options.has_resident_layers()) {
      entry.resident_layers = options.resident_layers();
    }
    compact.layer_options.push_back(std::move(entry));
  }
  if (offload.has_pin_memory()) compact.pin_memory = offload.pin_memory();
  if (offload.has_memory_budget_bytes()) {
    compact.memory_budget_bytes = offload.memory_budget_bytes();
  }
  if (offload.has_headroom_bytes()) {
    compact.headroom_bytes = offload.headroom_bytes();
  }
  return compact;
}

DiffusionParallelConfig to_parallel(const config::v1::ParallelConfig& proto,
                                    int64_t ranks) {
  DiffusionParallelConfig parallel;
  if (proto.has_sequence_parallel_size()) {
    parallel.sequence_parallel_size = proto.sequence_parallel_size();
  }
  if (proto.has_tensor_parallel_size()) {
    parallel.tensor_parallel_size = proto.tensor_parallel_size();
  }
  if (proto.has_cfg_parallel_size()) {
    parallel.cfg_parallel_size = proto.cfg_parallel_size();
  }
  parallel.use_hsdp = proto.use_hsdp();
  if (proto.has_hsdp_shard_size()) {
    parallel.hsdp_shard_size = proto.hsdp_shard_size();
  }
  if (proto.has_hsdp_replicate_size()) {
    parallel.hsdp_replicate_size = proto.hsdp_replicate_size();
  }
  // What the other sizes leave of the ranks.
  for (int64_t size :
       {parallel.sequence_parallel_size, parallel.tensor_parallel_size,
        parallel.cfg_parallel_size}) {
    if (size > 0) ranks /= size;
  }
  parallel.data_parallel_size = proto.has_data_parallel_size()
                                    ? proto.data_parallel_size()
                                    : std::max<int64_t>(ranks, 1);
  return parallel;
}

OmniDiffusionConfig to_od_config(
    const worker::v1::LoadPipelineRequest& request) {
  const config::v1::OffloadConfig& offload = request.offload();
  OmniDiffusionConfig config;
  const bool has_legacy = has_legacy_fields(offload);
  if (!offload.mode().empty() || has_compact_fields(offload) || !has_legacy) {
    config.diffusion_offload_config = to_compact(offload);
    // Nothing that needs a mode.
    if (offload.mode().empty() && offload.components().empty() &&
        offload.layer_options().empty() && !has_legacy) {
      config.diffusion_offload_config->mode = "auto";
    }
  }
  config.enable_cpu_offload = offload.enable_cpu_offload();
  config.enable_layerwise_offload = offload.enable_layerwise_offload();
  config.enable_distributed_layerwise_offload =
      offload.enable_distributed_layerwise_offload();
  if (offload.has_dlo_use_allgather()) {
    config.dlo_use_allgather = offload.dlo_use_allgather();
  }
  config.dlo_resident_layers = offload.dlo_resident_layers();
  if (offload.has_pin_cpu_memory()) {
    config.pin_cpu_memory = offload.pin_cpu_memory();
  }
  config.parallel_config =
      to_parallel(request.parallel(), request.world_size());
  return config;
}

absl::Status check_ranks(const DiffusionParallelConfig& parallel,
                         int64_t ranks) {
  const std::pair<absl::string_view, int64_t> sizes[] = {
      {"data_parallel_size", parallel.data_parallel_size},
      {"sequence_parallel_size", parallel.sequence_parallel_size},
      {"tensor_parallel_size", parallel.tensor_parallel_size},
      {"cfg_parallel_size", parallel.cfg_parallel_size},
  };
  int64_t product = 1;
  std::vector<std::string> factors;
  for (const auto& [name, size] : sizes) {
    // What is larger was refused as such.
    product *= std::clamp<int64_t>(size, 1, 1 << 15);
    if (size > 1) factors.push_back(absl::StrCat(name, " ", size));
  }
  if (product == ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "ranks: ", ranks, ", but parallel divides the work over ", product,
      product == 1 ? ""
                   : absl::StrCat(" (", absl::StrJoin(factors, " × "), ")"),
      "; set ranks to ", product, ", or other sizes"));
}

}  // namespace

absl::StatusOr<OffloadConfig> make_offload_config(
    const worker::v1::LoadPipelineRequest& request) {
  const OmniDiffusionConfig od_config = to_od_config(request);
  absl::StatusOr<OffloadConfig> config =
      OffloadConfig::from_od_config(od_config, "offload");
  if (!config.ok()) return config;
  const absl::Status ranks =
      check_ranks(od_config.parallel_config, request.world_size());
  if (!ranks.ok()) return ranks;
  return config;
}

}  // namespace ferry
