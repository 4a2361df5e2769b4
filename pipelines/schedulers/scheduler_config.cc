#include "pipelines/schedulers/scheduler_config.h"

#include <cmath>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ferry {
namespace {

constexpr std::streamsize kMaxFileBytes = 1 << 20;

absl::Status file_error(const std::filesystem::path& file,
                        absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(file.string(), ": ", problem));
}

// Parses one object. `duplicate` gets a key that stands there twice.
nlohmann::json parse_object(const std::string& text, std::string* duplicate) {
  std::set<std::string> keys;
  const auto on_event = [&](int depth, nlohmann::json::parse_event_t event,
                            nlohmann::json& value) {
    if (depth == 1 && event == nlohmann::json::parse_event_t::key) {
      const std::string& key = value.get_ref<const std::string&>();
      if (!keys.insert(key).second) *duplicate = key;
    }
    return true;
  };
  return nlohmann::json::parse(text, on_event, /*allow_exceptions=*/false);
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
  if (stream.bad()) return file_error(file, "cannot be read");
  if (stream.gcount() > kMaxFileBytes) {
    return file_error(file, "is larger than 1 MiB");
  }
  text.resize(static_cast<size_t>(stream.gcount()));
  return parse(text, file);
}

absl::StatusOr<SchedulerConfig> SchedulerConfig::parse(
    const std::string& text, const std::filesystem::path& file) {
  SchedulerConfig config;
  config.file_ = file;
  std::string duplicate;
  config.values_ = parse_object(text, &duplicate);
  if (config.values_.is_discarded() || !config.values_.is_object()) {
    return file_error(file, "is not a JSON object");
  }
  if (!duplicate.empty()) {
    return file_error(file, absl::StrCat("has the key ", duplicate, " twice"));
  }
  const auto class_name = config.values_.find("_class_name");
  if (class_name == config.values_.end() || !class_name->is_string()) {
    return file_error(file, "has no _class_name (a string)");
  }
  config.class_name_ = class_name->get<std::string>();
  return config;
}

const nlohmann::json* SchedulerConfig::find(const char* key) {
  known_.insert(key);
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &*found;
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
  const double number = value->is_number() ? value->get<double>() : NAN;
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

void SchedulerConfig::ignore(const char* key) { known_.insert(key); }

absl::Status SchedulerConfig::finish() const {
  std::vector<std::string> problems = errors_;
  for (const auto& [key, value] : values_.items()) {
    if (key.rfind('_', 0) == 0 || known_.count(key) > 0) continue;
    problems.push_back(absl::StrCat(key, " is no option of ", class_name_));
  }
  if (problems.empty()) return absl::OkStatus();
  return file_error(file_, absl::StrJoin(problems, "; "));
}

}  // namespace ferry
