#include "server/core/errors.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "platform/base/error_info.h"
#include "server/core/rpc_status.h"

namespace ferry {
namespace {

using Kind = FieldViolation::Kind;

template <typename Message>
std::optional<Message> detail(const absl::Status& status) {
  const google::rpc::Status proto = to_rpc_status(status);
  for (const google::protobuf::Any& any : proto.details()) {
    Message message;
    if (any.UnpackTo(&message)) return message;
  }
  return std::nullopt;
}

TEST(ErrorsTest, EveryFailureHasItsCodeAndReason) {
  struct Row {
    absl::Status status;
    absl::StatusCode code;
    std::string reason;
  };
  using Code = absl::StatusCode;
  const absl::Duration second = absl::Seconds(1);
  const std::vector<Row> rows = {
      {invalid_field("f", "d"), Code::kInvalidArgument, "INVALID_FIELD"},
      {invalid_page_token(), Code::kInvalidArgument, "INVALID_PAGE_TOKEN"},
      {method_not_supported("DeleteJob"), Code::kUnimplemented,
       "METHOD_NOT_SUPPORTED"},
      {task_not_supported("p", "t"), Code::kUnimplemented,
       "TASK_NOT_SUPPORTED"},
      {pipeline_not_found("p"), Code::kNotFound, "PIPELINE_NOT_FOUND"},
      {job_not_found("j"), Code::kNotFound, "JOB_NOT_FOUND"},
      {job_expired("j"), Code::kNotFound, "JOB_EXPIRED"},
      {pipeline_loading("p", second), Code::kUnavailable, "PIPELINE_LOADING"},
      {pipeline_failed("p", "w"), Code::kFailedPrecondition, "PIPELINE_FAILED"},
      {queue_full("p", "l", 1, second), Code::kResourceExhausted, "QUEUE_FULL"},
      {too_many_streams(1, second), Code::kResourceExhausted,
       "TOO_MANY_STREAMS"},
      {server_draining(second), Code::kUnavailable, "SERVER_DRAINING"},
      {queue_timeout(second), Code::kDeadlineExceeded, "QUEUE_TIMEOUT"},
      {deadline_exceeded(), Code::kDeadlineExceeded, "DEADLINE_EXCEEDED"},
      {deadline_unreachable(second, second), Code::kDeadlineExceeded,
       "DEADLINE_UNREACHABLE"},
      {run_timeout(second), Code::kDeadlineExceeded, "RUN_TIMEOUT"},
      {client_cancelled(), Code::kCancelled, "CLIENT_CANCELLED"},
      {job_cancelled(), Code::kCancelled, "JOB_CANCELLED"},
      {worker_lost("p", "w"), Code::kUnavailable, "WORKER_LOST"},
      {slow_reader(second), Code::kCancelled, "SLOW_READER"},
      {internal_error("w"), Code::kInternal, "INTERNAL"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(row.status.code(), row.code) << row.status;
    EXPECT_EQ(get_error_info(row.status)->reason, row.reason);
    EXPECT_FALSE(row.status.message().empty()) << row.reason;
    const auto info = detail<google::rpc::ErrorInfo>(row.status);
    ASSERT_TRUE(info.has_value()) << row.reason;
    EXPECT_EQ(info->domain(), "ferry.v1");
  }
}

TEST(ErrorsTest, WhatMayBeRetriedSaysWhen) {
  for (const absl::Status& status :
       {pipeline_loading("p", absl::Milliseconds(1500)),
        server_draining(absl::Milliseconds(1500)),
        too_many_streams(1, absl::Milliseconds(1500)),
        queue_full("p", "l", 1, absl::Milliseconds(1500))}) {
    const auto retry = detail<google::rpc::RetryInfo>(status);
    ASSERT_TRUE(retry.has_value()) << status;
    EXPECT_EQ(retry->retry_delay().seconds(), 1);
    EXPECT_EQ(retry->retry_delay().nanos(), 500000000);
  }
  EXPECT_TRUE(
      detail<google::rpc::RetryInfo>(worker_lost("p", "w")).has_value());
  EXPECT_FALSE(
      detail<google::rpc::RetryInfo>(pipeline_failed("p", "w")).has_value());
}

TEST(ErrorsTest, WhatIsMissingIsNamed) {
  const auto pipeline =
      detail<google::rpc::ResourceInfo>(pipeline_not_found("pipelines/x"));
  ASSERT_TRUE(pipeline.has_value());
  EXPECT_EQ(pipeline->resource_type(), "ferry.v1.Pipeline");
  EXPECT_EQ(pipeline->resource_name(), "pipelines/x");
  const auto job = detail<google::rpc::ResourceInfo>(job_expired("jobs/x"));
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->resource_name(), "jobs/x");
}

TEST(ErrorsTest, ViolationsOfOneKindKeepItsReason) {
  const absl::Status status =
      field_errors({{Kind::kLimit, "a", "too big", {{"limit", "5"}}}});
  EXPECT_EQ(get_error_info(status)->reason, "LIMIT_EXCEEDED");
  EXPECT_EQ(get_error_info(status)->metadata.at("limit"), "5");
  const absl::Status both =
      field_errors({{Kind::kNotSupported, "a", "no", {}},
                    {Kind::kNotSupported, "b", "no", {}}});
  EXPECT_EQ(both.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(get_error_info(both)->reason, "FIELD_NOT_SUPPORTED");
  EXPECT_EQ(get_error_info(both)->metadata.at("fields"), "a,b");
}

TEST(ErrorsTest, MixedViolationsAreInvalid) {
  const absl::Status status =
      field_errors({{Kind::kNotSupported, "a", "no", {}},
                    {Kind::kUnknown, "b", "what", {}}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(get_error_info(status)->reason, "INVALID_FIELD");
  const auto bad_request = detail<google::rpc::BadRequest>(status);
  ASSERT_TRUE(bad_request.has_value());
  ASSERT_EQ(bad_request->field_violations_size(), 2);
  EXPECT_EQ(bad_request->field_violations(1).field(), "b");
  EXPECT_EQ(bad_request->field_violations(1).description(), "what");
}

TEST(ErrorsDeathTest, AViolationIsWhatFieldErrorsAreMadeOf) {
  EXPECT_DEATH((void)field_errors({}), "check failed: !violations.empty");
}

}  // namespace
}  // namespace ferry
