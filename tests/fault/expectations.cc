#include "tests/fault/expectations.h"

#include <chrono>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/error_details.h"

namespace ferry {

using grpc::health::v1::HealthCheckResponse;

ReadinessWatch::ReadinessWatch(Daemon& daemon) {
  context_.set_deadline(std::chrono::system_clock::now() +
                        std::chrono::minutes(1));
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("readiness");
  reader_ = daemon.health().Watch(&context_, request);
  EXPECT_EQ(next(), HealthCheckResponse::SERVING);
}

ReadinessWatch::~ReadinessWatch() {
  context_.TryCancel();
  reader_->Finish();
}

ReadinessWatch::Status ReadinessWatch::next() {
  HealthCheckResponse response;
  return reader_->Read(&response) ? response.status()
                                  : HealthCheckResponse::UNKNOWN;
}

void expect_worker_lost(GenerateCall& call, const std::string& why) {
  const grpc::Status& status = call.finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE)
      << describe(status);
  EXPECT_THAT(status.error_message(), testing::HasSubstr(why));
  const ErrorDetails details = parse_details(status);
  EXPECT_EQ(details.reason, "WORKER_LOST");
  EXPECT_EQ(details.metadata.count("pipeline"), 1u);
  EXPECT_TRUE(details.retry_delay.has_value());
  EXPECT_EQ(call.job().state(), v1::Job::STATE_FAILED);
  EXPECT_EQ(parse_details(call.job().error()).reason, "WORKER_LOST");
}

void expect_loading(Daemon& daemon) {
  GenerateCall call(daemon.generation(), make_request());
  EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::UNAVAILABLE)
      << describe(call.finish());
  EXPECT_EQ(parse_details(call.finish()).reason, "PIPELINE_LOADING");
  EXPECT_TRUE(parse_details(call.finish()).retry_delay.has_value());
}

void expect_serves(Daemon& daemon) {
  v1::GenerateRequest request = make_request();
  request.mutable_spec()->set_num_inference_steps(1);
  GenerateCall call(daemon.generation(), request);
  EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
  EXPECT_FALSE(call.outputs().empty());
}

}  // namespace ferry
