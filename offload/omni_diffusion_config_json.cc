#include "offload/omni_diffusion_config_json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "offload/violations.h"

namespace ferry {
namespace {

using nlohmann::json;

// Names in messages: nobody's key floods a log.
std::string shown(absl::string_view key) {
  return absl::CHexEscape(key.substr(0, 64));
}

bool take(const json& value, bool* out) {
  if (!value.is_boolean()) return false;
  *out = value.get<bool>();
  return true;
}

bool take(const json& value, int64_t* out) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > std::numeric_limits<int64_t>::max()) {
    return false;
  }
  *out = value.get<int64_t>();
  return true;
}

bool take(const json& value, double* out) {
  if (!value.is_number()) return false;
  *out = value.get<double>();
  return true;
}

bool take(const json& value, std::string* out) {
  if (!value.is_string()) return false;
  *out = value.get<std::string>();
  return true;
}

bool take(const json& value, std::vector<std::string>* out) {
  if (!value.is_array()) return false;
  for (const json& item : value) {
    if (!item.is_string()) return false;
    out->push_back(item.get<std::string>());
  }
  return true;
}

template <typename T>
bool take(const json& value, std::optional<T>* out) {
  return take(value, &out->emplace());
}

const char* type_name(const bool*) { return "true or false"; }
const char* type_name(const int64_t*) { return "an integer of 64 bits"; }
const char* type_name(const double*) { return "a number"; }
const char* type_name(const std::string*) { return "a string"; }
const char* type_name(const std::vector<std::string>*) {
  return "a list of strings";
}
template <typename T>
const char* type_name(const std::optional<T>*) {
  return type_name(static_cast<const T*>(nullptr));
}

// Reads one object; every key must be asked for.
class ObjectReader {
 public:
  // `prefix` stands before the keys in messages, with its dot.
  ObjectReader(const json& object, std::string prefix, Violations* violations)
      : object_(object), prefix_(std::move(prefix)), violations_(violations) {}

  // The value of a key, or null when it is absent.
  const json* find(const std::string& key) {
    known_.push_back(key);
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  template <typename T>
  void read(const std::string& key, T* out) {
    const json* value = find(key);
    if (value != nullptr) read_value(key, *value, out);
  }

  // As read(); null is the same as absent.
  template <typename T>
  void read_nullable(const std::string& key, T* out) {
    const json* value = find(key);
    if (value != nullptr && !value->is_null()) read_value(key, *value, out);
  }

  // The object under a key, or null when it is absent or no object.
  const json* find_object(const std::string& key, bool nullable) {
    const json* value = find(key);
    if (value == nullptr || (nullable && value->is_null())) return nullptr;
    if (value->is_object()) return value;
    violations_->add(prefix_, key, ": must be an object, got a ",
                     value->type_name());
    return nullptr;
  }

  void refuse_other_keys() {
    for (const auto& [key, unused] : object_.items()) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) {
        continue;
      }
      violations_->add(prefix_, shown(key), ": is unknown; allowed are ",
                       absl::StrJoin(known_, ", "));
    }
  }

  std::string prefix_of(absl::string_view key) const {
    return absl::StrCat(prefix_, shown(key), ".");
  }

 private:
  template <typename T>
  void read_value(const std::string& key, const json& value, T* out) {
    if (take(value, out)) return;
    violations_->add(prefix_, key, ": must be ", type_name(out), ", got a ",
                     value.type_name());
  }

  const json& object_;
  const std::string prefix_;
  Violations* const violations_;
  std::vector<std::string> known_;
};

void read_layer_options(const json& object, const std::string& prefix,
                        Violations* violations,
                        std::vector<LayerOffloadOptions>* layer_options) {
  for (const auto& [component, options] : object.items()) {
    const std::string name = absl::StrCat(prefix, shown(component));
    if (!options.is_object()) {
      violations->add(name, ": must be an object, got a ", options.type_name());
      continue;
    }
    LayerOffloadOptions entry;
    entry.component = component;
    ObjectReader reader(options, absl::StrCat(name, "."), violations);
    reader.read("weight_transfer", &entry.weight_transfer);
    reader.read("resident_layers", &entry.resident_layers);
    reader.refuse_other_keys();
    layer_options->push_back(std::move(entry));
  }
}

DiffusionOffloadConfig read_compact(const json& object, std::string prefix,
                                    Violations* violations) {
  DiffusionOffloadConfig config;
  ObjectReader reader(object, std::move(prefix), violations);
  reader.read("mode", &config.mode);
  reader.read("components", &config.components);
  if (const json* options = reader.find_object("layer_options", false)) {
    read_layer_options(*options, reader.prefix_of("layer_options"), violations,
                       &config.layer_options);
  }
  reader.read_nullable("pin_memory", &config.pin_memory);
  reader.read("memory_budget_bytes", &config.memory_budget_bytes);
  reader.read("headroom_bytes", &config.headroom_bytes);
  reader.refuse_other_keys();
  return config;
}

DiffusionParallelConfig read_parallel(const json& object, std::string prefix,
                                      Violations* violations) {
  DiffusionParallelConfig config;
  ObjectReader reader(object, std::move(prefix), violations);
  reader.read("data_parallel_size", &config.data_parallel_size);
  reader.read("sequence_parallel_size", &config.sequence_parallel_size);
  reader.read("tensor_parallel_size", &config.tensor_parallel_size);
  reader.read("cfg_parallel_size", &config.cfg_parallel_size);
  reader.read("use_hsdp", &config.use_hsdp);
  reader.read("hsdp_shard_size", &config.hsdp_shard_size);
  reader.read("hsdp_replicate_size", &config.hsdp_replicate_size);
  reader.refuse_other_keys();
  return config;
}

// Parses, and notes keys that an object has twice; discarded when it is no
// JSON.
json parse(absl::string_view text, Violations* violations) {
  std::vector<std::set<std::string>> open_objects;
  const auto note = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) {
      open_objects.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open_objects.pop_back();
    } else if (event == json::parse_event_t::key) {
      const std::string key = value.get<std::string>();
      if (!open_objects.back().insert(key).second) {
        violations->add(shown(key), ": is there twice in one object");
      }
    }
    return true;
  };
  return json::parse(text.begin(), text.end(), note, false);
}

}  // namespace

absl::StatusOr<OmniDiffusionConfig> parse_omni_diffusion_config(
    absl::string_view text) {
  Violations violations;
  const json object = parse(text, &violations);
  if (object.is_discarded()) {
    return absl::InvalidArgumentError("the configuration is no JSON");
  }
  if (!object.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the configuration must be an object, got a ", object.type_name()));
  }
  OmniDiffusionConfig config;
  ObjectReader reader(object, "", &violations);
  const std::string compact = "diffusion_offload_config";
  if (const json* value = reader.find_object(compact, true)) {
    config.diffusion_offload_config =
        read_compact(*value, reader.prefix_of(compact), &violations);
  }
  reader.read("enable_cpu_offload", &config.enable_cpu_offload);
  reader.read("enable_layerwise_offload", &config.enable_layerwise_offload);
  reader.read("enable_distributed_layerwise_offload",
              &config.enable_distributed_layerwise_offload);
  reader.read("dlo_use_allgather", &config.dlo_use_allgather);
  reader.read("dlo_resident_layers", &config.dlo_resident_layers);
  reader.read("dlo_host_registration_limit_gib",
              &config.dlo_host_registration_limit_gib);
  reader.read("pin_cpu_memory", &config.pin_cpu_memory);
  reader.read("host_weight_runtime_mode", &config.host_weight_runtime_mode);
  if (const json* value = reader.find_object("parallel_config", true)) {
    config.parallel_config =
        read_parallel(*value, reader.prefix_of("parallel_config"), &violations);
  }
  reader.read_nullable("cache_backend", &config.cache_backend);
  reader.read("enable_prompt_embed_cache", &config.enable_prompt_embed_cache);
  reader.refuse_other_keys();
  if (!violations.empty()) return violations.status();
  return config;
}

}  // namespace ferry
