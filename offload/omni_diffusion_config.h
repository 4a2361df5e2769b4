#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

// Largest size in bytes that a configuration or a manifest may name: more than
// any machine has, and so small that a few of them can be added.
inline constexpr int64_t kMaxConfiguredBytes = int64_t{1} << 60;

// How the ranks of one pipeline divide the work. Sizes are numbers of ranks.
//
//   configuration                  what Ferry does
//   ----------------------------   ------------------------------------------
//   all sizes 1                    one rank
//   data_parallel_size N           N ranks with requests, weights and
//                                  offloading of their own
//   the same, with "allgather"     N ranks with requests of their own, that
//                                  hold the weights of blocks together
//   tensor_parallel_size > 1       refused: mode "layer" for large models
//   sequence_parallel_size > 1     refused: data_parallel_size, for requests
//   cfg_parallel_size > 1          refused: guidance is one batched pass
//   use_hsdp, of any sizes         refused: mode "layer" for large models
//   pipeline parallel              refused: there is no such field
//
// Refused is what check_parallel_config() and get_offload_backend() name,
// before anything is loaded.
struct DiffusionParallelConfig {
  int64_t data_parallel_size = 1;
  int64_t sequence_parallel_size = 1;
  int64_t tensor_parallel_size = 1;
  int64_t cfg_parallel_size = 1;
  // Weights sharded by FSDP inside groups of hsdp_shard_size ranks (-1: all)
  // and replicated over hsdp_replicate_size groups.
  bool use_hsdp = false;
  int64_t hsdp_shard_size = -1;
  int64_t hsdp_replicate_size = 1;
};

// What mode "layer" does with one component.
struct LayerOffloadOptions {
  // "dit", "text_encoder" or "vae"; one that is selected.
  std::string component;
  // "rank-local" (also when unset) or "allgather".
  std::optional<std::string> weight_transfer;
  // Blocks that stay on the device; "dit" only.
  std::optional<int64_t> resident_layers;
};

// The compact form: which components are offloaded, and how.
struct DiffusionOffloadConfig {
  // "module" or "layer"; or, with nothing else but pin_memory and
  // headroom_bytes, "auto": as little offloading as the device's memory needs;
  // or "none".
  std::optional<std::string> mode;
  // Some of "dit", "text_encoder", "vae".
  std::optional<std::vector<std::string>> components;
  // Mode "layer" only; one entry for a component at most.
  std::vector<LayerOffloadOptions> layer_options;
  // Unset: OmniDiffusionConfig::pin_cpu_memory.
  std::optional<bool> pin_memory;
  // Device memory for all weights together. Blocks of the DiTs stay resident
  // as far as it goes. Mode "layer" with "dit" only; excludes resident_layers
  // and "allgather". 1 to kMaxConfiguredBytes.
  std::optional<int64_t> memory_budget_bytes;
  // Device memory that is left to activations. 0 to kMaxConfiguredBytes.
  std::optional<int64_t> headroom_bytes;
};

// The part of a diffusion configuration that offloading depends on, as the
// user wrote it; checked by OffloadConfig::from_od_config().
struct OmniDiffusionConfig {
  std::optional<DiffusionOffloadConfig> diffusion_offload_config;

  // The older form. The last one that is set wins. Excludes the compact form,
  // unless that comes to the same strategy.
  bool enable_cpu_offload = false;
  bool enable_layerwise_offload = false;
  bool enable_distributed_layerwise_offload = false;
  // Transfer of the DiTs' blocks under distributed layerwise offload.
  bool dlo_use_allgather = true;
  // DiT blocks that stay on the device; without dlo_use_allgather only.
  int64_t dlo_resident_layers = 0;
  double dlo_host_registration_limit_gib = 0;
  bool pin_cpu_memory = true;
  // "disabled" is the only value that is supported.
  std::string host_weight_runtime_mode = "disabled";

  DiffusionParallelConfig parallel_config;
  // Caches that skip blocks or encoder runs, each rank by its own decision.
  // "none" is the same as unset.
  std::optional<std::string> cache_backend;
  bool enable_prompt_embed_cache = false;
};

}  // namespace ferry
