#include "server/ipc/foreign_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "platform/base/logging.h"

namespace ferry {
namespace {

void log_grpc(gpr_log_func_args* args) {
  const LogLevel level = args->severity == GPR_LOG_SEVERITY_ERROR
                             ? LogLevel::kWarning
                             : LogLevel::kDebug;
  log(level, args->message, {{"source", "grpc"}});
}

thread_local std::string invalid_text_field;

// "String field 'NAME' contains invalid UTF-8 data when parsing a …": who sent
// it is told so.
bool is_about_invalid_text(absl::string_view message) {
  if (!absl::ConsumePrefix(&message, "String field '")) return false;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(message, absl::MaxSplits('\'', 1));
  if (!absl::StartsWith(parts.second,
                        " contains invalid UTF-8 data when pars")) {
    return false;
  }
  invalid_text_field = std::string(parts.first);
  return true;
}

void log_protobuf(google::protobuf::LogLevel level, const char*, int,
                  const std::string& message) {
  if (is_about_invalid_text(message)) return;
  log(level >= google::protobuf::LOGLEVEL_ERROR ? LogLevel::kError
                                                : LogLevel::kWarning,
      message, {{"source", "protobuf"}});
}

}  // namespace

void route_foreign_logs() {
  gpr_set_log_function(log_grpc);
  google::protobuf::SetLogHandler(log_protobuf);
}

std::string take_invalid_text_field() {
  return std::exchange(invalid_text_field, "");
}

}  // namespace ferry
