#include "pipelines/schedulers/scheduler_config.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "pipelines/json/strict_json.h"
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

// What Python writes for minus infinity, and what stands for it in what was
// read: no string of a file is this by accident.
constexpr absl::string_view kMinusInfinity = "-Infinity";
constexpr absl::string_view kQuotedInfinity = "\"\\u0000-Infinity\"";
const std::string kInfinityValue = std::string(1, '\0') + "-Infinity";

// Far deeper than any option nests.
constexpr int kDepth = 64;

absl::Status config_error(absl::string_view origin, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(origin, ": ", problem));
}

// Python writes -Infinity, which is not JSON: makes it a string.
std::string quote_infinities(absl::string_view text) {
  std::string quoted;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escaped = in_string && text[i] == '\\' && i + 1 < text.size();
    if (text[i] == '"') in_string = !in_string;
    if (!in_string && absl::StartsWith(text.substr(i), kMinusInfinity)) {
      absl::StrAppend(&quoted, kQuotedInfinity);
      i += kMinusInfinity.size() - 1;
      continue;
    }
    quoted += text[i];
    if (escaped) quoted += text[++i];
  }
  return quoted;
}

absl::StatusOr<nlohmann::json> parse_object(const std::string& text,
                                            absl::string_view origin) {
  auto values = parse_strict_json(quote_infinities(text), kDepth);
  if (values.ok()) return values;
  return config_error(origin, values.status().message());
}

// diffusers writes the keys down that were not set when it saved a file, and
// takes the defaults of the class that it makes for them.
void drop_unset_keys(nlohmann::json* values) {
  const auto found = values->find("_use_default_values");
  if (found == values->end() || !found->is_array()) return;
  for (const nlohmann::json& key : nlohmann::json(*found)) {
    if (key.is_string()) values->erase(key.get<std::string>());
  }
}

// The value as an integer, also where Python wrote 1000.0 for it.
std::optional<int64_t> to_int64(const nlohmann::json& value) {
  constexpr double kLimit = 9007199254740992.0;  // 2^53
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (number != std::trunc(number) || std::abs(number) > kLimit) {
      return std::nullopt;
    }
    return static_cast<int64_t>(number);
  }
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() >
          static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::nullopt;
  }
  return value.get<int64_t>();
}

}  // namespace

std::string resolve_class_name(absl::string_view written) {
  for (absl::string_view prefix : {"FlashPack", "Flax"}) {
    if (absl::ConsumePrefix(&written, prefix)) break;
  }
  return std::string(written);
}

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
  if (const auto found = values.find("_class_name"); found != values.end()) {
    if (!found->is_string()) {
      return config_error(config.origin_, "_class_name must be a string");
    }
    config.written_class_name_ = found->get<std::string>();
    config.class_name_ = resolve_class_name(config.written_class_name_);
  }
  drop_unset_keys(&values);
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

const nlohmann::json* SchedulerConfig::find_set(const char* key) {
  const nlohmann::json* const value = find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool SchedulerConfig::get_bool(const char* key, bool fallback) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  // In Python None is as good as False.
  if (value->is_null()) return false;
  if (!value->is_boolean()) {
    add_error(key, "must be true or false");
    return fallback;
  }
  return value->get<bool>();
}

int64_t SchedulerConfig::get_int(const char* key, int64_t fallback, int64_t min,
                                 int64_t max) {
  const nlohmann::json* value = find_set(key);
  if (value == nullptr) return fallback;
  const std::optional<int64_t> number = to_int64(*value);
  if (!number.has_value() || *number < min || *number > max) {
    add_error(key, absl::StrCat("must be an integer from ", min, " to ", max));
    return fallback;
  }
  return *number;
}

double SchedulerConfig::get_double(const char* key, double fallback, double min,
                                   double max) {
  const nlohmann::json* value = find_set(key);
  if (value == nullptr) return fallback;
  // `!(>=)` also catches what is no number at all.
  const double number = value->is_number()         ? value->get<double>()
                        : *value == kInfinityValue ? -INFINITY
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
  if (find_set(key) == nullptr) return std::nullopt;
  return get_double(key, 0, min, max);
}

std::vector<int64_t> SchedulerConfig::get_int_list(const char* key) {
  const nlohmann::json* list = find_set(key);
  std::vector<int64_t> values;
  if (list == nullptr) return values;
  bool valid = list->is_array();
  for (const nlohmann::json& value : *list) {
    const std::optional<int64_t> number = to_int64(value);
    valid = valid && number.has_value();
    if (valid) values.push_back(*number);
  }
  if (!valid) add_error(key, "must be a list of whole numbers");
  return values;
}

std::string SchedulerConfig::get_choice(
    const char* key, const char* fallback,
    const std::vector<absl::string_view>& choices) {
  const nlohmann::json* value = find_set(key);
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
