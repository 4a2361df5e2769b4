#include "server/core/errors.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/message.h"
#include "google/rpc/error_details.pb.h"
#include "platform/base/check.h"
#include "platform/base/error_info.h"

namespace ferry {
namespace {

using Kind = FieldViolation::Kind;

const char* reason_of(Kind kind) {
  switch (kind) {
    case Kind::kInvalid:
      return "INVALID_FIELD";
    case Kind::kUnknown:
      return "UNKNOWN_PARAMETER";
    case Kind::kConflicting:
      return "CONFLICTING_FIELDS";
    case Kind::kLimit:
      return "LIMIT_EXCEEDED";
    case Kind::kNotSupported:
      return "FIELD_NOT_SUPPORTED";
  }
  return "INVALID_FIELD";
}

absl::Status with_detail(absl::Status status,
                         const google::protobuf::Message& detail) {
  status.SetPayload(absl::StrCat("type.googleapis.com/", detail.GetTypeName()),
                    absl::Cord(detail.SerializeAsString()));
  return status;
}

absl::Status with_retry(absl::Status status, absl::Duration delay) {
  google::rpc::RetryInfo retry;
  const int64_t milliseconds =
      absl::ToInt64Milliseconds(std::max(delay, absl::ZeroDuration()));
  retry.mutable_retry_delay()->set_seconds(milliseconds / 1000);
  retry.mutable_retry_delay()->set_nanos(static_cast<int>(milliseconds % 1000) *
                                         1000000);
  return with_detail(std::move(status), retry);
}

absl::Status with_resource(absl::Status status, absl::string_view type,
                           absl::string_view name) {
  google::rpc::ResourceInfo resource;
  resource.set_resource_type(std::string(type));
  resource.set_resource_name(std::string(name));
  resource.set_description(std::string(status.message()));
  return with_detail(std::move(status), resource);
}

constexpr absl::string_view kPipelineType = "ferry.v1.Pipeline";
constexpr absl::string_view kJobType = "ferry.v1.Job";
// A group that was lost is usually back within it.
constexpr absl::Duration kWorkerRetryDelay = absl::Seconds(2);

}  // namespace

absl::Status field_errors(const std::vector<FieldViolation>& violations) {
  FERRY_CHECK(!violations.empty());
  google::rpc::BadRequest bad_request;
  ErrorInfo info{reason_of(violations.front().kind), {}};
  bool all_unsupported = true;
  std::string fields;
  for (const FieldViolation& violation : violations) {
    auto* entry = bad_request.add_field_violations();
    entry->set_field(violation.field);
    entry->set_description(violation.description);
    if (violation.kind != violations.front().kind) {
      info.reason = reason_of(Kind::kInvalid);
    }
    all_unsupported &= violation.kind == Kind::kNotSupported;
    absl::StrAppend(&fields, fields.empty() ? "" : ",", violation.field);
  }
  if (violations.size() == 1) info.metadata = violations.front().metadata;
  info.metadata["fields"] = fields;
  std::string message = absl::StrCat(violations.front().field, ": ",
                                     violations.front().description);
  if (violations.size() > 1) {
    absl::StrAppend(&message, " (and ", violations.size() - 1,
                    " more: ", fields, ")");
  }
  return with_detail(
      make_error(all_unsupported ? absl::StatusCode::kUnimplemented
                                 : absl::StatusCode::kInvalidArgument,
                 message, info),
      bad_request);
}

absl::Status invalid_field(absl::string_view field,
                           absl::string_view description) {
  return field_errors(
      {{Kind::kInvalid, std::string(field), std::string(description), {}}});
}

absl::Status invalid_page_token() {
  const absl::Status status = invalid_field(
      "page_token",
      "must come from the page before, with the same filter and server");
  return with_error_info(status, {"INVALID_PAGE_TOKEN", {}});
}

absl::Status unparsable_request(absl::string_view text_field) {
  const ErrorInfo info{"UNPARSABLE_REQUEST", {}};
  if (text_field.empty()) {
    return make_error(absl::StatusCode::kInvalidArgument,
                      "the request is no message of the method's type", info);
  }
  return with_error_info(invalid_field(text_field, "must be UTF-8"), info);
}

absl::Status method_not_supported(absl::string_view method) {
  return make_error(
      absl::StatusCode::kUnimplemented,
      absl::StrCat("this server does not serve ", method),
      {"METHOD_NOT_SUPPORTED", {{"method", std::string(method)}}});
}

absl::Status task_not_supported(absl::string_view pipeline,
                                absl::string_view task) {
  return make_error(
      absl::StatusCode::kUnimplemented,
      absl::StrCat(pipeline, " does not do ", task),
      {"TASK_NOT_SUPPORTED",
       {{"pipeline", std::string(pipeline)}, {"task", std::string(task)}}});
}

absl::Status pipeline_not_found(absl::string_view name) {
  return with_resource(
      make_error(absl::StatusCode::kNotFound,
                 absl::StrCat("no pipeline is named \"", name,
                              "\"; ListPipelines returns those that are"),
                 {"PIPELINE_NOT_FOUND", {{"pipeline", std::string(name)}}}),
      kPipelineType, name);
}

absl::Status job_not_found(absl::string_view name) {
  return with_resource(
      make_error(absl::StatusCode::kNotFound,
                 absl::StrCat("no job is named \"", name, "\""),
                 {"JOB_NOT_FOUND", {{"job", std::string(name)}}}),
      kJobType, name);
}

absl::Status job_expired(absl::string_view name) {
  return with_resource(
      make_error(absl::StatusCode::kNotFound,
                 absl::StrCat(name,
                              " has ended and is no longer kept: only the "
                              "latest finished jobs are"),
                 {"JOB_EXPIRED", {{"job", std::string(name)}}}),
      kJobType, name);
}

absl::Status pipeline_loading(absl::string_view name,
                              absl::Duration retry_delay) {
  return with_retry(
      with_resource(
          make_error(absl::StatusCode::kUnavailable,
                     absl::StrCat(name, " is being loaded"),
                     {"PIPELINE_LOADING", {{"pipeline", std::string(name)}}}),
          kPipelineType, name),
      retry_delay);
}

absl::Status pipeline_failed(absl::string_view name, absl::string_view why) {
  return with_resource(
      make_error(absl::StatusCode::kFailedPrecondition,
                 absl::StrCat(name, " has failed: ", why),
                 {"PIPELINE_FAILED", {{"pipeline", std::string(name)}}}),
      kPipelineType, name);
}

absl::Status queue_full(absl::string_view pipeline, absl::string_view limit,
                        int64_t limit_value, absl::Duration retry_delay) {
  const std::string message = absl::StrCat(
      "the queue of ", pipeline, " is full: ", limit, " is ", limit_value);
  google::rpc::QuotaFailure quota;
  auto* violation = quota.add_violations();
  violation->set_subject(std::string(pipeline));
  violation->set_description(message);
  return with_retry(
      with_detail(make_error(absl::StatusCode::kResourceExhausted, message,
                             {"QUEUE_FULL",
                              {{"pipeline", std::string(pipeline)},
                               {"limit", std::string(limit)},
                               {"value", absl::StrCat(limit_value)}}}),
                  quota),
      retry_delay);
}

absl::Status too_many_streams(int limit, absl::Duration retry_delay) {
  return with_retry(
      make_error(absl::StatusCode::kResourceExhausted,
                 absl::StrCat("the server serves ", limit,
                              " streams at a time, and all are taken"),
                 {"TOO_MANY_STREAMS", {{"limit", absl::StrCat(limit)}}}),
      retry_delay);
}

absl::Status server_draining(absl::Duration retry_delay) {
  return with_retry(
      make_error(absl::StatusCode::kUnavailable, "the server is shutting down",
                 {"SERVER_DRAINING", {}}),
      retry_delay);
}

absl::Status queue_timeout(absl::Duration waited) {
  const std::string text =
      absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(1)));
  return make_error(
      absl::StatusCode::kDeadlineExceeded,
      absl::StrCat("no worker was free within the queue timeout; waited ",
                   text),
      {"QUEUE_TIMEOUT", {{"waited", text}}});
}

absl::Status deadline_exceeded() {
  return make_error(absl::StatusCode::kDeadlineExceeded,
                    "the deadline of the call has passed",
                    {"DEADLINE_EXCEEDED", {}});
}

absl::Status deadline_unreachable(absl::Duration estimate,
                                  absl::Duration remaining) {
  const auto text = [](absl::Duration duration) {
    return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(1)));
  };
  return make_error(
      absl::StatusCode::kDeadlineExceeded,
      absl::StrCat("the deadline leaves ", text(remaining),
                   ", and the generation takes about ", text(estimate)),
      {"DEADLINE_UNREACHABLE",
       {{"estimate", text(estimate)}, {"remaining", text(remaining)}}});
}

absl::Status run_timeout(absl::Duration limit) {
  const std::string text = absl::FormatDuration(limit);
  return make_error(
      absl::StatusCode::kDeadlineExceeded,
      absl::StrCat("the generation ran longer than run_timeout, ", text),
      {"RUN_TIMEOUT", {{"limit", text}}});
}

absl::Status client_cancelled() {
  return make_error(absl::StatusCode::kCancelled,
                    "the client closed its stream", {"CLIENT_CANCELLED", {}});
}

absl::Status job_cancelled() {
  return make_error(absl::StatusCode::kCancelled,
                    "the job was cancelled by CancelJob",
                    {"JOB_CANCELLED", {}});
}

absl::Status worker_lost(absl::string_view pipeline, absl::string_view why) {
  return with_retry(
      make_error(absl::StatusCode::kUnavailable,
                 absl::StrCat("the worker of ", pipeline, " was lost: ", why),
                 {"WORKER_LOST", {{"pipeline", std::string(pipeline)}}}),
      kWorkerRetryDelay);
}

absl::Status slow_reader(absl::Duration limit) {
  const std::string text = absl::FormatDuration(limit);
  return make_error(
      absl::StatusCode::kCancelled,
      absl::StrCat("the client took no data for slow_reader_timeout, ", text),
      {"SLOW_READER", {{"limit", text}}});
}

absl::Status internal_error(absl::string_view what) {
  return make_error(absl::StatusCode::kInternal, what, {"INTERNAL", {}});
}

}  // namespace ferry
