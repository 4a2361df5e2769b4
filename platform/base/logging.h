#pragma once

#include <initializer_list>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ferry {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

enum class LogFormat {
  // `2026-01-31T12:00:00.000000Z info ferryd[42] message key=value`
  kText,
  // One object a line: ts, level, component, pid, msg, and the fields.
  kJson,
};

struct LogOptions {
  // Default text.
  LogFormat format = LogFormat::kText;
  // Default info. What is less severe is dropped.
  LogLevel level = LogLevel::kInfo;
  // Appended to. Default: stderr.
  std::string file;
  // Who writes: `ferryd`, `ferry_worker`.
  std::string component = "ferry";
};

// A value that a line carries beside its message, such as the job's name. An
// empty one is left out.
class LogField {
 public:
  LogField(absl::string_view key, absl::string_view value)
      : key_(key), value_(value) {}
  // Without it a `const char*` would be taken for a bool.
  LogField(absl::string_view key, const char* value)
      : LogField(key, absl::string_view(value)) {}
  template <typename Number,
            typename = std::enable_if_t<std::is_arithmetic_v<Number> &&
                                        !std::is_same_v<Number, bool>>>
  LogField(absl::string_view key, Number value)
      : key_(key), value_(absl::StrCat(value)), is_number_(true) {}

  absl::string_view key() const { return key_; }
  const std::string& value() const { return value_; }
  bool is_number() const { return is_number_; }

 private:
  // Names are literals; values may come from anywhere.
  absl::string_view key_;
  std::string value_;
  bool is_number_ = false;
};

using LogFields = std::initializer_list<LogField>;

// Sets up the process's log: where it goes and how a line looks. Before it,
// lines go to stderr as text. An error names the file that cannot be opened.
// main() calls it before it starts a thread.
absl::Status init_logging(const LogOptions& options);

// INVALID_ARGUMENT names what would be right.
absl::StatusOr<LogLevel> parse_log_level(absl::string_view text);
absl::StatusOr<LogFormat> parse_log_format(absl::string_view text);

// Write one line. Message and values may hold anything: they are escaped. What
// a user sends as a prompt must not be given at all. Thread-safe.
void log(LogLevel level, absl::string_view message, LogFields fields = {});
void log_debug(absl::string_view message, LogFields fields = {});
void log_info(absl::string_view message, LogFields fields = {});
void log_warning(absl::string_view message, LogFields fields = {});
void log_error(absl::string_view message, LogFields fields = {});

}  // namespace ferry
