#include "server/ipc/foreign_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <string>

#include "platform/base/logging.h"

namespace ferry {
namespace {

void log_grpc(gpr_log_func_args* args) {
  const LogLevel level = args->severity == GPR_LOG_SEVERITY_ERROR
                             ? LogLevel::kWarning
                             : LogLevel::kDebug;
  log(level, args->message, {{"source", "grpc"}});
}

void log_protobuf(google::protobuf::LogLevel level, const char*, int,
                  const std::string& message) {
  log(level >= google::protobuf::LOGLEVEL_ERROR ? LogLevel::kError
                                                : LogLevel::kWarning,
      message, {{"source", "protobuf"}});
}

}  // namespace

void route_foreign_logs() {
  gpr_set_log_function(log_grpc);
  google::protobuf::SetLogHandler(log_protobuf);
}

}  // namespace ferry
