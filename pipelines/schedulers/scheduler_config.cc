#include "pipelines/schedulers/scheduler_config.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

constexpr std::streamsize kMaxFileBytes = 1 << 20;

// What the classes that diffusers calls compatible (KarrasDiffusionSchedulers)
// have for options.
constexpr const char* kCompatibleOptions[] = {
    "algorithm_type",
    "beta_end",
    "beta_schedule",
    "beta_start",
    "clip_sample",
    "clip_sample_range",
    "disable_corrector",
    "dynamic_thresholding_ratio",
    "euler_at_final",
    "final_sigmas_type",
    "flow_shift",
    "interpolation_type",
    "lambda_min_clipped",
    "lower_order_final",
    "num_train_timesteps",
    "predict_x0",
    "prediction_type",
    "rescale_betas_zero_snr",
    "rho",
    "sample_max_value",
    "set_alpha_to_one",
    "shift_terminal",
    "sigma_data",
    "sigma_max",
    "sigma_min",
    "sigma_schedule",
    "skip_prk_steps",
    "solver_order",
    "solver_p",
    "solver_type",
    "steps_offset",
    "thresholding",
    "time_shift_type",
    "timestep_spacing",
    "timestep_type",
    "trained_betas",
    "use_beta_sigmas",
    "use_dynamic_shifting",
    "use_exponential_sigmas",
    "use_flow_sigmas",
    "use_karras_sigmas",
    "use_lu_lambdas",
    "variance_type",
};

constexpr char kMinusInfinity[] = "-Infinity";

absl::Status config_error(absl::string_view origin, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(origin, ": ", problem));
}

// Python writes -Infinity, which is not JSON: makes it a string.
std::string quote_infinities(const std::string& text) {
  std::string quoted;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escaped = in_string && text[i] == '\\' && i + 1 < text.size();
    if (text[i] == '"') in_string = !in_string;
    if (!in_string && absl::StartsWith(text.substr(i, 9), kMinusInfinity)) {
      absl::StrAppend(&quoted, "\"", kMinusInfinity, "\"");
      i += 8;
      continue;
    }
    quoted += text[i];
    if (escaped) quoted += text[++i];
  }
  return quoted;
}

// Parses one object. `duplicate` gets a key that stands there twice.
nlohmann::json parse_keys(const std::string& text, std::string* duplicate) {
  std::set<std::string> keys;
  const auto on_event = [&](int depth, nlohmann::json::parse_event_t event,
                            nlohmann::json& value) {
    if (depth == 1 && event == nlohmann::json::parse_event_t::key) {
      const std::string& key = value.get_ref<const std::string&>();
      if (!keys.insert(key).second) *duplicate = key;
    }
    return true;
  };
  return nlohmann::json::parse(quote_infinities(text), on_event,
                               /*allow_exceptions=*/false);
}

absl::StatusOr<nlohmann::json> parse_object(const std::string& text,
                                            absl::string_view origin) {
  std::string duplicate;
  nlohmann::json values = parse_keys(text, &duplicate);
  if (values.is_discarded() || !values.is_object()) {
    return config_error(origin, "is not a JSON object");
  }
  if (!duplicate.empty()) {
    return config_error(origin,
                        absl::StrCat("has the key ", duplicate, " twice"));
  }
  return values;
}

}  // namespace

absl::StatusOr<SchedulerConfig> SchedulerConfig::load(
    const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    return absl::NotFoundError(
        absl::StrCat(file.string(),
                     ": cannot be opened; expected the NoiseScheduler's "
                     "configuration as diffusers writes it"));
  }
  std::string text(kMaxFileBytes + 1, '\0');
  stream.read(text.data(), kMaxFileBytes + 1);
  if (stream.bad()) return config_error(file.string(), "cannot be read");
  if (stream.gcount() > kMaxFileBytes) {
    return config_error(file.string(), "is larger than 1 MiB");
  }
  text.resize(static_cast<size_t>(stream.gcount()));
  return parse(text, file);
}

absl::StatusOr<SchedulerConfig> SchedulerConfig::parse(
    const std::string& text, const std::filesystem::path& file) {
  SchedulerConfig config;
  config.origin_ = file.string();
  ASSIGN_OR_RETURN(nlohmann::json values, parse_object(text, config.origin_));
  const auto class_name = values.find("_class_name");
  if (class_name == values.end() || !class_name->is_string()) {
    return config_error(config.origin_, "has no _class_name (a string)");
  }
  config.class_name_ = class_name->get<std::string>();
  config.values_ = std::make_shared<const nlohmann::json>(std::move(values));
  return config;
}

absl::StatusOr<SchedulerConfig> SchedulerConfig::derive(
    const std::string& class_name, const std::string& options,
    const std::string& origin) const {
  SchedulerConfig config;
  config.origin_ = origin;
  config.class_name_ = class_name;
  config.values_ = values_;
  for (const auto& [key, value] : values_->items()) config.known_.insert(key);
  if (options.empty()) return config;
  ASSIGN_OR_RETURN(const nlohmann::json changes,
                   parse_object(options, absl::StrCat(origin, " options")));
  nlohmann::json values = *values_;
  for (const auto& [key, value] : changes.items()) {
    values[key] = value;
    config.known_.erase(key);
  }
  config.values_ = std::make_shared<const nlohmann::json>(std::move(values));
  return config;
}

const nlohmann::json* SchedulerConfig::find(const char* key) {
  known_.insert(key);
  const auto found = values_->find(key);
  return found == values_->end() ? nullptr : &*found;
}

void SchedulerConfig::add_error(absl::string_view key,
                                absl::string_view problem) {
  errors_.push_back(absl::StrCat(key, " ", problem));
}

bool SchedulerConfig::get_bool(const char* key, bool fallback) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) {
    add_error(key, "must be true or false");
    return fallback;
  }
  return value->get<bool>();
}

int64_t SchedulerConfig::get_int(const char* key, int64_t fallback, int64_t min,
                                 int64_t max) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  const bool fits_int64 =
      value->is_number_integer() &&
      (!value->is_number_unsigned() ||
       value->get<uint64_t>() <=
           static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits_int64 || value->get<int64_t>() < min ||
      value->get<int64_t>() > max) {
    add_error(key, absl::StrCat("must be an integer from ", min, " to ", max));
    return fallback;
  }
  return value->get<int64_t>();
}

double SchedulerConfig::get_double(const char* key, double fallback, double min,
                                   double max) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  // `!(>=)` also catches what is no number at all.
  const double number = value->is_number()         ? value->get<double>()
                        : *value == kMinusInfinity ? -INFINITY
                                                   : NAN;
  if (!(number >= min && number <= max)) {
    const bool bounded = min > std::numeric_limits<double>::lowest();
    add_error(key,
              bounded && max < std::numeric_limits<double>::max()
                  ? absl::StrCat("must be a number from ", min, " to ", max)
              : bounded ? absl::StrCat("must be a number of at least ", min)
                        : std::string("must be a number"));
    return fallback;
  }
  return number;
}

std::optional<double> SchedulerConfig::get_optional_double(const char* key,
                                                           double min,
                                                           double max) {
  const nlohmann::json* value = find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return get_double(key, 0, min, max);
}

std::vector<int64_t> SchedulerConfig::get_int_list(const char* key) {
  const nlohmann::json* list = find(key);
  std::vector<int64_t> values;
  if (list == nullptr) return values;
  bool valid = list->is_array();
  for (const nlohmann::json& value : *list) {
    valid = valid && value.is_number_integer();
    if (valid) values.push_back(value.get<int64_t>());
  }
  if (!valid) add_error(key, "must be a list of whole numbers");
  return values;
}

std::string SchedulerConfig::get_choice(
    const char* key, const char* fallback,
    const std::vector<absl::string_view>& choices) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_string()) {
    const std::string& text = value->get_ref<const std::string&>();
    for (absl::string_view choice : choices) {
      if (text == choice) return text;
    }
  }
  add_error(key, absl::StrCat("must be one of ", absl::StrJoin(choices, ", ")));
  return fallback;
}

void SchedulerConfig::refuse(const char* key) {
  const nlohmann::json* value = find(key);
  if (value == nullptr || value->is_null() || *value == false) return;
  add_error(key, "is not supported; remove it");
}

void SchedulerConfig::ignore_compatible_options() {
  known_.insert(std::begin(kCompatibleOptions), std::end(kCompatibleOptions));
}

absl::Status SchedulerConfig::finish() const {
  std::vector<std::string> problems = errors_;
  for (const auto& [key, value] : values_->items()) {
    if (key.rfind('_', 0) == 0 || known_.count(key) > 0) continue;
    problems.push_back(absl::StrCat(key, " is no option of ", class_name_));
  }
  if (problems.empty()) return absl::OkStatus();
  return config_error(origin_, absl::StrJoin(problems, "; "));
}

}  // namespace ferry
