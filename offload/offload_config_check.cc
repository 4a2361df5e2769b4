#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "offload/offload_config.h"
#include "offload/violations.h"

namespace ferry {
namespace {

constexpr std::array<OffloadComponent, 3> kComponents = {
    OffloadComponent::kDit, OffloadComponent::kTextEncoder,
    OffloadComponent::kVae};

constexpr absl::string_view kComponentNames =
    "\"dit\", \"text_encoder\", \"vae\"";

// So that products of sizes stay in range.
constexpr int64_t kMaxParallelSize = 1 << 20;

std::string quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, 64)), "\"");
}

std::optional<OffloadComponent> find_component(absl::string_view name) {
  for (OffloadComponent component : kComponents) {
    if (name == to_string(component)) return component;
  }
  return std::nullopt;
}

}  // namespace

// Does the work of OffloadConfig::from_od_config().
class OffloadConfigCheck {
 public:
  OffloadConfigCheck(const OmniDiffusionConfig& config,
                     absl::string_view compact_name)
      : config_(config), name_(compact_name) {}

  absl::StatusOr<OffloadConfig> run() {
    check_parallel();
    check_legacy_fields();
    if (config_.diffusion_offload_config) {
      check_compact(*config_.diffusion_offload_config);
      check_compact_against_legacy();
    } else {
      take_legacy();
    }
    derive_group_size();
    check_collectives();
    if (!violations_.empty()) return violations_.status();
    return std::move(result_);
  }

 private:
  // Names a field of the compact form.
  std::string field(absl::string_view key) const {
    return absl::StrCat(name_, ".", key);
  }

  void check_parallel();
  void check_legacy_fields();
  void take_legacy();
  void check_compact(const DiffusionOffloadConfig& compact);
  void check_mode(const DiffusionOffloadConfig& compact);
  void check_components(const DiffusionOffloadConfig& compact);
  void check_layer_options(const DiffusionOffloadConfig& compact);
  void check_layer_option(const LayerOffloadOptions& options);
  void check_bytes(const DiffusionOffloadConfig& compact);
  void check_range(absl::string_view key, int64_t bytes, int64_t least);
  // A mode without components: "auto" or "none".
  void check_bare_mode(const DiffusionOffloadConfig& compact);
  void check_compact_against_legacy();
  void derive_group_size();
  void check_collectives();

  OffloadStrategy legacy_strategy() const;

  const OmniDiffusionConfig& config_;
  const absl::string_view name_;
  OffloadConfig result_;
  Violations violations_;
  // Of the compact form; empty when it is wrong.
  std::string mode_;
};

absl::StatusOr<OffloadConfig> OffloadConfig::from_od_config(
    const OmniDiffusionConfig& config, absl::string_view compact_name) {
  return OffloadConfigCheck(config, compact_name).run();
}

void OffloadConfigCheck::check_parallel() {
  const DiffusionParallelConfig& parallel = config_.parallel_config;
  const auto check = [&](absl::string_view key, int64_t size) {
    if (size >= 1 && size <= kMaxParallelSize) return;
    violations_.add("parallel_config.", key, ": must be 1 to ",
                    kMaxParallelSize, ", got ", size);
  };
  check("data_parallel_size", parallel.data_parallel_size);
  check("sequence_parallel_size", parallel.sequence_parallel_size);
  check("tensor_parallel_size", parallel.tensor_parallel_size);
  check("cfg_parallel_size", parallel.cfg_parallel_size);
  check("hsdp_replicate_size", parallel.hsdp_replicate_size);
  if (parallel.hsdp_shard_size != -1) {
    check("hsdp_shard_size", parallel.hsdp_shard_size);
  }
  result_.parallel_ = parallel;
}

void OffloadConfigCheck::check_legacy_fields() {
  if (config_.dlo_resident_layers < 0) {
    violations_.add("dlo_resident_layers: must be 0 or more, got ",
                    config_.dlo_resident_layers);
  }
  const double limit = config_.dlo_host_registration_limit_gib;
  if (!std::isfinite(limit) || limit < 0) {
    violations_.add(
        "dlo_host_registration_limit_gib: must be a finite number, 0 or more");
  } else if (limit > 0) {
    violations_.add(
        "dlo_host_registration_limit_gib: must be 0, since there is no Host "
        "Weight Runtime to limit");
  }
  if (config_.host_weight_runtime_mode != "disabled") {
    violations_.add(
        "host_weight_runtime_mode: ", quoted(config_.host_weight_runtime_mode),
        " is not supported; allowed is \"disabled\"");
  }
}

OffloadStrategy OffloadConfigCheck::legacy_strategy() const {
  if (config_.enable_distributed_layerwise_offload) {
    return OffloadStrategy::kDistributedLayerWise;
  }
  if (config_.enable_layerwise_offload) return OffloadStrategy::kLayerWise;
  if (config_.enable_cpu_offload) return OffloadStrategy::kModelLevel;
  return OffloadStrategy::kNone;
}

void OffloadConfigCheck::take_legacy() {
  result_.strategy_ = legacy_strategy();
  result_.pin_memory_ = config_.pin_cpu_memory;
  result_.resident_layers_ = config_.dlo_resident_layers;
  if (config_.dlo_use_allgather) {
    result_.gathered_.insert(OffloadComponent::kDit);
    if (config_.dlo_resident_layers > 0) {
      violations_.add(
          "dlo_resident_layers: needs dlo_use_allgather false, since what is "
          "gathered cannot stay");
    }
  }
  if (config_.dlo_resident_layers > 0 && !result_.is_distributed()) {
    result_.notes_.push_back(
        "dlo_resident_layers has no effect without "
        "enable_distributed_layerwise_offload");
  }
  const int flags = (config_.enable_cpu_offload ? 1 : 0) +
                    (config_.enable_layerwise_offload ? 1 : 0) +
                    (config_.enable_distributed_layerwise_offload ? 1 : 0);
  if (flags > 1) {
    result_.notes_.push_back(
        absl::StrCat("several enable_*_offload flags are set; ",
                     to_string(result_.strategy_), " wins"));
  }
}

void OffloadConfigCheck::check_compact(const DiffusionOffloadConfig& compact) {
  result_.pin_memory_ = compact.pin_memory.value_or(config_.pin_cpu_memory);
  result_.headroom_bytes_ = compact.headroom_bytes;
  check_mode(compact);
  check_bytes(compact);
  if (mode_ == "auto" || mode_ == "none") {
    check_bare_mode(compact);
    return;
  }
  check_components(compact);
  check_layer_options(compact);
  if (mode_ == "module") {
    result_.strategy_ = OffloadStrategy::kModelLevel;
  } else if (mode_ == "layer") {
    const bool distributed = !result_.gathered_.empty() ||
                             result_.resident_layers_ > 0 ||
                             result_.memory_budget_bytes_;
    result_.strategy_ = distributed ? OffloadStrategy::kDistributedLayerWise
                                    : OffloadStrategy::kLayerWise;
  }
}

void OffloadConfigCheck::check_mode(const DiffusionOffloadConfig& compact) {
  constexpr absl::string_view kAllowed =
      "allowed are \"auto\", \"none\", \"module\", \"layer\"";
  if (!compact.mode) {
    violations_.add(field("mode"), ": is required; ", kAllowed);
    return;
  }
  for (absl::string_view mode : {"auto", "none", "module", "layer"}) {
    if (*compact.mode == mode) mode_ = *compact.mode;
  }
  if (mode_.empty()) {
    violations_.add(field("mode"), ": ", quoted(*compact.mode), " is unknown; ",
                    kAllowed);
  }
}

void OffloadConfigCheck::check_bare_mode(
    const DiffusionOffloadConfig& compact) {
  const auto refuse = [&](bool is_set, absl::string_view key,
                          absl::string_view modes) {
    if (!is_set) return;
    violations_.add(field(key), ": needs mode ", modes, ", got \"", mode_,
                    "\"");
  };
  constexpr absl::string_view kBoth = "\"module\" or \"layer\"";
  refuse(compact.components.has_value(), "components", kBoth);
  refuse(!compact.layer_options.empty(), "layer_options", "\"layer\"");
  if (mode_ == "auto") {
    result_.is_automatic_ = true;
    return;
  }
  refuse(compact.pin_memory.has_value(), "pin_memory", kBoth);
  refuse(compact.headroom_bytes.has_value(), "headroom_bytes", kBoth);
}

void OffloadConfigCheck::check_components(
    const DiffusionOffloadConfig& compact) {
  result_.is_explicit_ = true;
  result_.components_.clear();
  if (!compact.components || compact.components->empty()) {
    violations_.add(field("components"),
                    ": must name at least one component; allowed are ",
                    kComponentNames);
    return;
  }
  for (const std::string& name : *compact.components) {
    const std::optional<OffloadComponent> component = find_component(name);
    if (component) {
      result_.components_.insert(*component);
    } else {
      violations_.add(field("components"), ": ", quoted(name),
                      " is unknown; allowed are ", kComponentNames);
    }
  }
}

void OffloadConfigCheck::check_layer_options(
    const DiffusionOffloadConfig& compact) {
  if (mode_ == "module" && !compact.layer_options.empty()) {
    violations_.add(field("layer_options"),
                    ": needs mode \"layer\", got \"module\"");
  }
  std::set<std::string> seen;
  for (const LayerOffloadOptions& options : compact.layer_options) {
    if (!seen.insert(options.component).second) {
      violations_.add(field("layer_options"), ": ", quoted(options.component),
                      " is there twice");
    }
    check_layer_option(options);
  }
}

void OffloadConfigCheck::check_layer_option(
    const LayerOffloadOptions& options) {
  const std::optional<OffloadComponent> component =
      find_component(options.component);
  if (!component || !result_.selects(*component)) {
    violations_.add(field("layer_options"), ": ", quoted(options.component),
                    " is not one of the selected components");
    return;
  }
  const std::string name =
      absl::StrCat(field("layer_options."), options.component, ".");
  bool gathered = false;
  if (options.weight_transfer) {
    gathered = *options.weight_transfer == "allgather";
    if (gathered && *component == OffloadComponent::kVae) {
      violations_.add(name,
                      "weight_transfer: must be \"rank-local\", since a VAE is "
                      "staged as a whole");
    } else if (!gathered && *options.weight_transfer != "rank-local") {
      violations_.add(name,
                      "weight_transfer: ", quoted(*options.weight_transfer),
                      " is unknown; allowed are \"rank-local\", "
                      "\"allgather\"");
    }
    if (gathered) result_.gathered_.insert(*component);
  }
  const int64_t resident = options.resident_layers.value_or(0);
  if (resident < 0) {
    violations_.add(name, "resident_layers: must be 0 or more, got ", resident);
  } else if (resident > 0 && *component != OffloadComponent::kDit) {
    violations_.add(name,
                    "resident_layers: must be 0; only \"dit\" can have "
                    "resident blocks");
  } else if (resident > 0 && gathered) {
    violations_.add(name,
                    "resident_layers: needs weight_transfer \"rank-local\", "
                    "got \"allgather\"");
  } else if (*component == OffloadComponent::kDit) {
    result_.resident_layers_ = resident;
  }
}

void OffloadConfigCheck::check_bytes(const DiffusionOffloadConfig& compact) {
  if (compact.headroom_bytes) {
    check_range("headroom_bytes", *compact.headroom_bytes, 0);
  }
  if (!compact.memory_budget_bytes) return;
  const std::string name = field("memory_budget_bytes");
  result_.memory_budget_bytes_ = compact.memory_budget_bytes;
  check_range("memory_budget_bytes", *compact.memory_budget_bytes, 1);
  if (!mode_.empty() && mode_ != "layer") {
    violations_.add(name, ": needs mode \"layer\", got \"", mode_, "\"");
  }
  const auto& components = compact.components;
  if (components && std::find(components->begin(), components->end(), "dit") ==
                        components->end()) {
    violations_.add(name, ": needs the component \"dit\"");
  }
  for (const LayerOffloadOptions& options : compact.layer_options) {
    if (options.resident_layers) {
      violations_.add(name, ": excludes layer_options.",
                      quoted(options.component),
                      ".resident_layers; give one of them");
    }
    if (options.weight_transfer && *options.weight_transfer == "allgather") {
      violations_.add(name, ": excludes weight_transfer \"allgather\"");
    }
  }
}

void OffloadConfigCheck::check_range(absl::string_view key, int64_t bytes,
                                     int64_t least) {
  if (bytes >= least && bytes <= kMaxConfiguredBytes) return;
  violations_.add(field(key), ": must be ", least, " to ", kMaxConfiguredBytes,
                  ", got ", bytes);
}

void OffloadConfigCheck::check_compact_against_legacy() {
  std::vector<std::string> options;
  if (!config_.dlo_use_allgather) options.push_back("dlo_use_allgather");
  if (config_.dlo_resident_layers != 0) {
    options.push_back("dlo_resident_layers");
  }
  if (!options.empty()) {
    violations_.add(absl::StrJoin(options, ", "), ": cannot be combined with ",
                    name_, "; use ", field("layer_options"));
  }
  const OffloadStrategy legacy = legacy_strategy();
  if (legacy == OffloadStrategy::kNone || mode_.empty()) return;
  if (legacy == result_.strategy_ && !result_.is_automatic_) return;
  violations_.add("enable_*_offload: asks for ", to_string(legacy), ", but ",
                  name_, " for ",
                  result_.is_automatic_ ? "auto" : to_string(result_.strategy_),
                  "; leave the flag out");
}

void OffloadConfigCheck::derive_group_size() {
  const DiffusionParallelConfig& parallel = config_.parallel_config;
  int64_t size = parallel.data_parallel_size;
  if (parallel.use_hsdp && parallel.hsdp_shard_size > 0) {
    // What is out of range has been reported.
    size =
        std::min(parallel.hsdp_shard_size, kMaxParallelSize) *
        std::clamp<int64_t>(parallel.hsdp_replicate_size, 1, kMaxParallelSize);
  }
  if (size <= 1 && parallel.sequence_parallel_size > 1) {
    size = parallel.sequence_parallel_size;
  }
  result_.group_size_ = std::max<int64_t>(size, 1);
}

// A rank that decides by itself to skip blocks would leave the others waiting.
void OffloadConfigCheck::check_collectives() {
  const bool caches = config_.cache_backend && *config_.cache_backend != "none";
  const bool data_parallel = config_.parallel_config.data_parallel_size > 1;
  if (data_parallel && result_.any_allgather() && caches) {
    violations_.add("cache_backend: ", quoted(*config_.cache_backend),
                    " cannot be combined with weight_transfer \"allgather\" "
                    "across data-parallel ranks; use \"none\" or "
                    "\"rank-local\"");
  }
  if (data_parallel && config_.enable_prompt_embed_cache &&
      result_.selects(OffloadComponent::kTextEncoder) &&
      result_.uses_allgather(OffloadComponent::kTextEncoder)) {
    violations_.add(
        "enable_prompt_embed_cache: cannot be combined with weight_transfer "
        "\"allgather\" of \"text_encoder\" across data-parallel ranks; use "
        "\"rank-local\"");
  }
  if (result_.use_hsdp() && result_.any_allgather()) {
    violations_.add(
        "parallel_config.use_hsdp: cannot be combined with weight_transfer "
        "\"allgather\", since both shard the weights; use \"rank-local\"");
  }
}

}  // namespace ferry
