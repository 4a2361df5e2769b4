#pragma once

#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace ferry {

// Reads the keys of a scheduler_config.json, strictly.
//
// A getter returns the key's value, or `fallback` when the key is absent; a
// value of a wrong type or out of range is remembered as an error, and the
// fallback returned. finish() then reports every error at once, and every key
// that nobody asked for: an option is never ignored. Keys that start with an
// underscore are diffusers' own notes, and are.
//
// Not thread-safe.
class SchedulerConfig {
 public:
  // Reads a file of at most 1 MiB that holds one JSON object, without
  // duplicate keys.
  static absl::StatusOr<SchedulerConfig> load(
      const std::filesystem::path& file);
  // The same for text; `file` stands in the errors.
  static absl::StatusOr<SchedulerConfig> parse(
      const std::string& text, const std::filesystem::path& file);

  const std::string& class_name() const { return class_name_; }
  const std::filesystem::path& file() const { return file_; }

  bool get_bool(const char* key, bool fallback);
  int64_t get_int(const char* key, int64_t fallback, int64_t min, int64_t max);
  double get_double(const char* key, double fallback,
                    double min = std::numeric_limits<double>::lowest(),
                    double max = std::numeric_limits<double>::max());
  // Null counts as absent.
  std::optional<double> get_optional_double(
      const char* key, double min = std::numeric_limits<double>::lowest(),
      double max = std::numeric_limits<double>::max());
  // One of `choices`.
  std::string get_choice(const char* key, const char* fallback,
                         const std::vector<absl::string_view>& choices);

  // Remembers an error unless the key is absent, null or false.
  void refuse(const char* key);
  // Accepts a key whatever it holds: an option of another diffusers class,
  // that configurations carry from one class to the next.
  void ignore(const char* key);
  // Remembers an error about `key`.
  void add_error(absl::string_view key, absl::string_view problem);

  // INVALID_ARGUMENT that names the file and all problems, or OK.
  absl::Status finish() const;

 private:
  SchedulerConfig() = default;

  // Returns the key's value or nullptr, and marks the key as known.
  const nlohmann::json* find(const char* key);

  std::filesystem::path file_;
  nlohmann::json values_;
  std::string class_name_;
  std::set<std::string> known_;
  std::vector<std::string> errors_;
};

}  // namespace ferry
