#include "client/error_report.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/exit_codes.h"
#include "google/rpc/error_details.pb.h"
#include "platform/base/log_escape.h"

namespace ferry {
namespace {

void describe_fields(const google::rpc::BadRequest& request,
                     absl::string_view message, std::string* text) {
  for (const auto& violation : request.field_violations()) {
    // With one wrong field the message says it already.
    if (request.field_violations_size() == 1 &&
        absl::StrContains(message, violation.description())) {
      continue;
    }
    absl::StrAppend(text, "\n  ", printable(violation.field()), ": ",
                    printable(violation.description()));
  }
}

void describe_retry(const google::rpc::RetryInfo& retry, std::string* text) {
  absl::StrAppend(
      text, "\n  try again in ",
      absl::FormatDuration(absl::Seconds(retry.retry_delay().seconds()) +
                           absl::Nanoseconds(retry.retry_delay().nanos())));
}

}  // namespace

std::string printable(absl::string_view text) {
  std::string out;
  append_log_text(text, &out);
  return out;
}

std::string describe_error(const google::rpc::Status& error) {
  std::string reason;
  std::string details;
  for (const google::protobuf::Any& any : error.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::BadRequest request;
    google::rpc::RetryInfo retry;
    if (any.UnpackTo(&info)) {
      reason = printable(info.reason());
    } else if (any.UnpackTo(&request)) {
      describe_fields(request, error.message(), &details);
    } else if (any.UnpackTo(&retry)) {
      describe_retry(retry, &details);
    }
  }
  const std::string code =
      absl::StatusCodeToString(static_cast<absl::StatusCode>(error.code()));
  return absl::StrCat(code, reason.empty() ? "" : " ", reason, ": ",
                      printable(error.message()), details);
}

std::string describe_error(const grpc::Status& error) {
  google::rpc::Status status;
  // Errors of gRPC itself carry no details.
  if (!status.ParseFromString(error.error_details())) status.Clear();
  status.set_code(error.error_code());
  status.set_message(error.error_message());
  return describe_error(status);
}

int report_error(const grpc::Status& error, std::ostream* err) {
  *err << describe_error(error) << std::endl;
  return kServerError + static_cast<int>(error.error_code());
}

}  // namespace ferry
