#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace ferry {

// The class that diffusers makes for a name in one of its files: names of its
// Flax classes (FlaxDDIMScheduler) stand for those of PyTorch, and FlashPack is
// a way to store weights.
std::string resolve_class_name(absl::string_view written);

// Reads the keys of a scheduler_config.json, strictly.
//
// A getter returns the key's value, or `fallback` when the key is absent or
// null; a value of a wrong type or out of range is remembered as an error, and
// the fallback returned. finish() then reports every error at once, and every
// key that nobody asked for: an option is never ignored. Keys that start with
// an underscore are diffusers' own notes, and are; those that
// `_use_default_values` lists are absent.
//
// A configuration for another class can be derived from a file, as diffusers'
// from_config does.
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
  // The file's keys for another class, or the same one: what `class_name` has
  // no use for is dropped, and `options`, a JSON object in text, is put over
  // the rest; empty: nothing is. `origin` replaces the file's name in errors.
  absl::StatusOr<SchedulerConfig> derive(const std::string& class_name,
                                         const std::string& options,
                                         const std::string& origin) const;

  // Resolved; empty when the file has no _class_name.
  const std::string& class_name() const { return class_name_; }
  // As the file has it.
  const std::string& written_class_name() const { return written_class_name_; }
  // What errors start with: the file, or where it was derived.
  const std::string& origin() const { return origin_; }

  // Null is false, as in Python.
  bool get_bool(const char* key, bool fallback);
  // Takes 1000.0 for 1000.
  int64_t get_int(const char* key, int64_t fallback, int64_t min, int64_t max);
  double get_double(const char* key, double fallback,
                    double min = std::numeric_limits<double>::lowest(),
                    double max = std::numeric_limits<double>::max());
  std::optional<double> get_optional_double(
      const char* key, double min = std::numeric_limits<double>::lowest(),
      double max = std::numeric_limits<double>::max());
  // Whole numbers, none when the key is absent.
  std::vector<int64_t> get_int_list(const char* key);
  // One of `choices`.
  std::string get_choice(const char* key, const char* fallback,
                         const std::vector<absl::string_view>& choices);

  // Remembers an error unless the key is absent, null or false.
  void refuse(const char* key);
  // Accepts the options of diffusers' samplers for variance-preserving models,
  // whatever they hold: it calls these classes compatible, carries options from
  // one to the next, and drops what a class has no use for. To be called when
  // all options of the class itself have been read.
  void ignore_compatible_options();
  // Remembers an error about `key`.
  void add_error(absl::string_view key, absl::string_view problem);

  // INVALID_ARGUMENT that names the file and all problems, or OK.
  absl::Status finish() const;

 private:
  SchedulerConfig() = default;

  // Returns the key's value or nullptr, and marks the key as known.
  const nlohmann::json* find(const char* key);
  // The same, and nullptr for null.
  const nlohmann::json* find_set(const char* key);

  std::string origin_;
  // Never null, once loaded or derived.
  std::shared_ptr<const nlohmann::json> values_;
  std::string class_name_;
  std::string written_class_name_;
  // Keys that may stay unread.
  std::set<std::string> known_;
  std::vector<std::string> errors_;
};

}  // namespace ferry
