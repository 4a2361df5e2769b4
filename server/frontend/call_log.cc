#include "server/frontend/call_log.h"

#include <exception>

#include "absl/strings/str_cat.h"
#include "platform/base/error_info.h"
#include "server/core/errors.h"
#include "server/ipc/grpc_status.h"

namespace ferry {
namespace {

// An exception that left a handler would reach the client as UNKNOWN.
absl::Status run_guarded(const CallLog::Handler& handler, CallNotes& notes) {
  try {
    return handler(notes);
  } catch (const std::exception& exception) {
    return internal_error(absl::StrCat("unexpected: ", exception.what()));
  } catch (...) {
    return internal_error("unexpected exception");
  }
}

}  // namespace

grpc::Status CallLog::run(absl::string_view method,
                          const grpc::ServerContext& context,
                          const Handler& handler, LogLevel level) {
  ++in_flight_;
  const absl::Duration start = clock_.monotonic();
  CallNotes notes;
  const absl::Status status = run_guarded(handler, notes);
  const double milliseconds =
      absl::ToDoubleMilliseconds(clock_.monotonic() - start);

  const auto info = get_error_info(status);
  log(status.code() == absl::StatusCode::kInternal ? LogLevel::kError : level,
      "call",
      {{"grpc_method", method},
       {"grpc_code", absl::StatusCodeToString(status.code())},
       {"reason", info.has_value() ? info->reason : ""},
       {"error", status.message()},
       {"job", notes.job},
       {"pipeline", notes.pipeline},
       {"peer", context.peer()},
       {"duration_ms", milliseconds}});
  ++finished_;
  if (!status.ok()) ++failed_;
  --in_flight_;
  return to_grpc_status(status);
}

}  // namespace ferry
