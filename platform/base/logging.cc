#include "platform/base/logging.h"

#include <spdlog/formatter.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "platform/base/log_escape.h"

namespace ferry {
namespace {

// Names that clients send may be as large as a request.
constexpr size_t kMaxValueBytes = 4096;

// Fields of the line that this thread writes: spdlog's message has no place
// for them, and its sinks format on the thread that logs.
thread_local const LogFields* current_fields = nullptr;

absl::string_view level_name(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return "debug";
    case spdlog::level::info:
      return "info";
    case spdlog::level::warn:
      return "warn";
    default:
      return "error";
  }
}

std::string shorten(const std::string& value) {
  if (value.size() <= kMaxValueBytes) return value;
  size_t end = kMaxValueBytes;
  while (end > 0 && (static_cast<uint8_t>(value[end]) & 0xC0) == 0x80) --end;
  return absl::StrCat(value.substr(0, end), "… (", value.size(), " bytes)");
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// spdlog's own formatters escape nothing.
class EscapingFormatter final : public spdlog::formatter {
 public:
  EscapingFormatter(LogFormat format, std::string component)
      : format_(format), component_(std::move(component)), pid_(getpid()) {}

  void format(const spdlog::details::log_msg& message,
              spdlog::memory_buf_t& out) override {
    const std::string time =
        absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::FromChrono(message.time),
                         absl::UTCTimeZone());
    const absl::string_view text(message.payload.data(),
                                 message.payload.size());
    const absl::string_view level = level_name(message.level);
    std::string line = format_ == LogFormat::kJson
                           ? json_line(time, level, text)
                           : text_line(time, level, text);
    line.push_back('\n');
    out.append(line.data(), line.data() + line.size());
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<EscapingFormatter>(format_, component_);
  }

 private:
  std::string json_line(absl::string_view time, absl::string_view level,
                        absl::string_view text) const {
    std::string line = absl::StrCat("{\"ts\":\"", time, "\",\"level\":\"",
                                    level, "\",\"component\":\"", component_,
                                    "\",\"pid\":", pid_, ",\"msg\":");
    append_json_string(text, &line);
    if (current_fields != nullptr) {
      for (const LogField& field : *current_fields) {
        if (field.value().empty()) continue;
        line.push_back(',');
        append_json_string(field.key(), &line);
        line.push_back(':');
        // JSON has no inf and nan.
        const char last = field.value().back();
        if (field.is_number() && last >= '0' && last <= '9') {
          line.append(field.value());
        } else {
          append_json_string(shorten(field.value()), &line);
        }
      }
    }
    line.push_back('}');
    return line;
  }

  std::string text_line(absl::string_view time, absl::string_view level,
                        absl::string_view text) const {
    std::string line =
        absl::StrCat(time, " ", level, " ", component_, "[", pid_, "] ");
    append_log_text(text, &line);
    if (current_fields != nullptr) {
      for (const LogField& field : *current_fields) {
        if (field.value().empty()) continue;
        absl::StrAppend(&line, " ", field.key(), "=");
        append_log_value(shorten(field.value()), &line);
      }
    }
    return line;
  }

  const LogFormat format_;
  const std::string component_;
  const pid_t pid_;
};

std::shared_ptr<spdlog::logger> make_logger(const LogOptions& options,
                                            spdlog::sink_ptr sink) {
  auto logger =
      std::make_shared<spdlog::logger>(options.component, std::move(sink));
  logger->set_formatter(
      std::make_unique<EscapingFormatter>(options.format, options.component));
  logger->set_level(to_spdlog(options.level));
  logger->flush_on(spdlog::level::trace);
  return logger;
}

std::shared_ptr<spdlog::logger>& current_logger() {
  static auto* logger = new std::shared_ptr<spdlog::logger>(make_logger(
      LogOptions(), std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  return *logger;
}

}  // namespace

absl::Status init_logging(const LogOptions& options) {
  spdlog::sink_ptr sink;
  if (options.file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file);
    } catch (const spdlog::spdlog_ex& error) {
      return absl::InvalidArgumentError(absl::StrCat(
          "log_file: cannot open '", options.file, "': ", error.what()));
    }
  }
  current_logger() = make_logger(options, std::move(sink));
  // Whoever uses spdlog itself gets escaped lines, too.
  spdlog::set_default_logger(current_logger());
  return absl::OkStatus();
}

absl::StatusOr<LogLevel> parse_log_level(absl::string_view text) {
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "warn") return LogLevel::kWarning;
  if (text == "error") return LogLevel::kError;
  return absl::InvalidArgumentError(
      absl::StrCat("must be debug, info, warn or error, got '", text, "'"));
}

absl::StatusOr<LogFormat> parse_log_format(absl::string_view text) {
  if (text == "text") return LogFormat::kText;
  if (text == "json") return LogFormat::kJson;
  return absl::InvalidArgumentError(
      absl::StrCat("must be text or json, got '", text, "'"));
}

void log(LogLevel level, absl::string_view message, LogFields fields) {
  const LogFields* const outer = std::exchange(current_fields, &fields);
  current_logger()->log(to_spdlog(level),
                        spdlog::string_view_t(message.data(), message.size()));
  current_fields = outer;
}

void log_debug(absl::string_view message, LogFields fields) {
  log(LogLevel::kDebug, message, fields);
}
void log_info(absl::string_view message, LogFields fields) {
  log(LogLevel::kInfo, message, fields);
}
void log_warning(absl::string_view message, LogFields fields) {
  log(LogLevel::kWarning, message, fields);
}
void log_error(absl::string_view message, LogFields fields) {
  log(LogLevel::kError, message, fields);
}

}  // namespace ferry
