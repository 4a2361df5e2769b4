#include "server/frontend/call_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/core/errors.h"
#include "server/frontend/testing/test_frontend.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

class CallLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = absl::StrCat(
        getenv("TEST_TMPDIR"), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    LogOptions options;
    options.format = LogFormat::kJson;
    options.file = path_;
    ASSERT_TRUE(init_logging(options).ok());
  }
  void TearDown() override { ASSERT_TRUE(init_logging(LogOptions()).ok()); }

  grpc::Status run(const CallLog::Handler& handler,
                   LogLevel level = LogLevel::kInfo) {
    const grpc::ServerContext context;
    return calls_.run("ferry.v1.S/M", context, handler, level);
  }

  nlohmann::json line() const {
    std::ifstream file(path_);
    std::string text;
    std::getline(file, text);
    return text.empty() ? nlohmann::json() : nlohmann::json::parse(text);
  }

  CallLog calls_{Clock::real()};

 private:
  std::string path_;
};

TEST_F(CallLogTest, WritesOneLineACall) {
  EXPECT_TRUE(run([](CallNotes& notes) {
                notes.job = "jobs/1";
                notes.pipeline = "pipelines/demo";
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(line()["grpc_method"], "ferry.v1.S/M");
  EXPECT_EQ(line()["grpc_code"], "OK");
  EXPECT_EQ(line()["job"], "jobs/1");
  EXPECT_EQ(line()["pipeline"], "pipelines/demo");
  EXPECT_TRUE(line()["duration_ms"].is_number());
}

TEST_F(CallLogTest, TellsErrorsToTheClientAndToTheLog) {
  const grpc::Status status =
      run([](CallNotes&) { return job_not_found("jobs/2\n{}"); });
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(reason_of(status), "JOB_NOT_FOUND");
  EXPECT_EQ(line()["grpc_code"], "NOT_FOUND");
  EXPECT_EQ(line()["reason"], "JOB_NOT_FOUND");
  EXPECT_EQ(line()["level"], "info");
}

TEST_F(CallLogTest, AnExceptionIsInternal) {
  const grpc::Status status = run([](CallNotes&) -> absl::Status {
    throw std::runtime_error("no such tensor");
  });
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(reason_of(status), "INTERNAL");
  EXPECT_THAT(status.error_message(), HasSubstr("no such tensor"));
  EXPECT_EQ(line()["level"], "error");
  EXPECT_EQ(run([](CallNotes&) -> absl::Status { throw 7; }).error_code(),
            grpc::StatusCode::INTERNAL);
}

TEST_F(CallLogTest, Counts) {
  run([&](CallNotes&) {
    EXPECT_EQ(calls_.in_flight(), 1);
    return absl::OkStatus();
  });
  run([](CallNotes&) { return job_not_found("jobs/1"); });
  EXPECT_EQ(calls_.finished(), 2);
  EXPECT_EQ(calls_.failed(), 1);
  EXPECT_EQ(calls_.in_flight(), 0);
}

TEST_F(CallLogTest, ProbesAreNotWorthALine) {
  run([](CallNotes&) { return absl::OkStatus(); }, LogLevel::kDebug);
  EXPECT_TRUE(line().is_null());
}

}  // namespace
}  // namespace ferry
