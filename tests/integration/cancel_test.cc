// Everything that ends a job before its time: CancelJob, a deadline, a client
// that goes away, a queue timeout.

#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/generate_call.h"
#include "tests/support/job_calls.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

using v1::Job;

class CancelTest : public SharedDaemonFixture<CancelTest> {
 public:
  static Daemon::Options options() {
    Daemon::Options options;
    options.pipelines = {{"slow", slow_package()}};
    return options;
  }

 protected:
  // Runs for far longer than a test waits.
  static v1::GenerateRequest endless_request() {
    v1::GenerateRequest request = make_request();
    request.mutable_spec()->set_num_inference_steps(200);
    return request;
  }

  static v1::GenerateRequest short_request() {
    v1::GenerateRequest request = make_request();
    request.mutable_spec()->set_num_inference_steps(1);
    return request;
  }

  // A job that holds the only rank can be followed by another one only when it
  // was ended: 200 steps take 20 s.
  static void expect_rank_is_free() {
    const absl::Time start = absl::Now();
    GenerateCall next(generation(), short_request());
    EXPECT_TRUE(next.finish().ok()) << describe(next.finish());
    EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  }

  // GetJob, once the job has finished.
  static Job finished_job(const std::string& name) {
    Job job;
    EXPECT_TRUE(eventually([&] {
      job = get_job(generation(), name).response.job();
      return job.state() != Job::STATE_QUEUED &&
             job.state() != Job::STATE_RUNNING;
    }));
    return job;
  }
};

TEST_F(CancelTest, CancelJobEndsARunningJobWithinAStep) {
  GenerateCall call(generation(), endless_request());
  ASSERT_TRUE(call.wait_for_step(2));
  const auto cancelled = cancel_job(generation(), call.job().name());
  ASSERT_TRUE(cancelled.status.ok()) << describe(cancelled.status);
  EXPECT_EQ(cancelled.response.job().name(), call.job().name());
  EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(parse_details(call.finish()).reason, "JOB_CANCELLED");
  EXPECT_EQ(call.job().state(), Job::STATE_CANCELLED);
  EXPECT_EQ(call.job().error().code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(parse_details(call.job().error()).reason, "JOB_CANCELLED");
  EXPECT_LT(call.job().progress().step(), 100);
  expect_rank_is_free();
}

TEST_F(CancelTest, CancelJobEndsAQueuedJobAtOnce) {
  GenerateCall running(generation(), endless_request());
  ASSERT_TRUE(running.wait_for_step(1));
  GenerateCall queued(generation(), short_request());
  ASSERT_TRUE(queued.wait_for_state(Job::STATE_QUEUED));
  ASSERT_TRUE(cancel_job(generation(), queued.job().name()).status.ok());
  EXPECT_EQ(parse_details(queued.finish()).reason, "JOB_CANCELLED");
  EXPECT_FALSE(queued.job().has_start_time());
  // The running one is untouched.
  EXPECT_EQ(get_job(generation(), running.job().name()).response.job().state(),
            Job::STATE_RUNNING);
}

TEST_F(CancelTest, CancelJobIsIdempotent) {
  GenerateCall call(generation(), short_request());
  ASSERT_TRUE(call.finish().ok()) << describe(call.finish());
  for (int i = 0; i < 2; ++i) {
    const auto cancelled = cancel_job(generation(), call.job().name());
    ASSERT_TRUE(cancelled.status.ok()) << describe(cancelled.status);
    EXPECT_EQ(cancelled.response.job().state(), Job::STATE_SUCCEEDED);
  }
}

TEST_F(CancelTest, CancelJobOfAnUnknownJob) {
  const std::string name = "jobs/0123456789abcdef0123456789abcdef";
  const grpc::Status status = cancel_job(generation(), name).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  const ErrorDetails details = parse_details(status);
  EXPECT_EQ(details.reason, "JOB_NOT_FOUND");
  EXPECT_EQ(details.domain, "ferry.v1");
  EXPECT_EQ(details.resource_name, name);
}

TEST_F(CancelTest, DeadlineEndsARunningJob) {
  GenerateCall::Options options;
  options.deadline = absl::Milliseconds(1500);
  std::string name;
  {
    GenerateCall call(generation(), endless_request(), options);
    ASSERT_TRUE(call.wait_for_step(1)) << describe(call.finish());
    EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    name = call.job().name();
  }
  const Job job = finished_job(name);
  EXPECT_EQ(job.state(), Job::STATE_CANCELLED);
  EXPECT_EQ(job.error().code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(parse_details(job.error()).reason, "DEADLINE_EXCEEDED");
  expect_rank_is_free();
}

TEST_F(CancelTest, DeadlineThatCannotBeMetIsRefusedAtOnce) {
  v1::GenerateRequest request = make_request();
  request.mutable_spec()->set_num_inference_steps(10);
  GenerateCall first(generation(), request);
  ASSERT_TRUE(first.finish().ok()) << describe(first.finish());
  GenerateCall::Options options;
  options.deadline = absl::Milliseconds(5 * kSlowStepMs);
  GenerateCall second(generation(), request, options);
  EXPECT_EQ(second.finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(parse_details(second.finish()).reason, "DEADLINE_UNREACHABLE");
  EXPECT_THAT(second.events(), testing::IsEmpty());
}

TEST_F(CancelTest, ClientThatGoesAwayEndsItsJob) {
  std::string name;
  {
    GenerateCall call(generation(), endless_request());
    ASSERT_TRUE(call.wait_for_step(1));
    name = call.job().name();
    call.cancel();
  }
  const Job job = finished_job(name);
  EXPECT_EQ(job.state(), Job::STATE_CANCELLED);
  EXPECT_EQ(job.error().code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(parse_details(job.error()).reason, "CLIENT_CANCELLED");
  expect_rank_is_free();
}

TEST_F(CancelTest, ClientThatGoesAwayEndsItsQueuedJob) {
  GenerateCall running(generation(), endless_request());
  ASSERT_TRUE(running.wait_for_step(1));
  std::string name;
  {
    GenerateCall queued(generation(), short_request());
    ASSERT_TRUE(queued.wait_for_state(Job::STATE_QUEUED));
    name = queued.job().name();
  }
  EXPECT_EQ(parse_details(finished_job(name).error()).reason,
            "CLIENT_CANCELLED");
}

TEST_F(CancelTest, ClosedConnectionEndsItsJob) {
  std::string name;
  {
    const auto channel = daemon().new_channel();
    const auto stub = v1::GenerationService::NewStub(channel);
    GenerateCall call(*stub, endless_request());
    ASSERT_TRUE(call.wait_for_step(1));
    name = call.job().name();
  }
  EXPECT_EQ(finished_job(name).state(), Job::STATE_CANCELLED);
  expect_rank_is_free();
}

TEST_F(CancelTest, QueueTimeoutEndsAWaitingJob) {
  GenerateCall running(generation(), endless_request());
  ASSERT_TRUE(running.wait_for_step(1));
  v1::GenerateRequest request = short_request();
  request.mutable_queue_timeout()->set_nanos(200 * 1000 * 1000);
  GenerateCall queued(generation(), request);
  EXPECT_EQ(queued.finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  const ErrorDetails details = parse_details(queued.finish());
  EXPECT_EQ(details.reason, "QUEUE_TIMEOUT");
  EXPECT_EQ(details.metadata.count("waited"), 1u);
  EXPECT_EQ(queued.job().state(), Job::STATE_CANCELLED);
  EXPECT_EQ(get_job(generation(), running.job().name()).response.job().state(),
            Job::STATE_RUNNING);
}

TEST_F(CancelTest, QueueTimeoutDoesNotEndARunningJob) {
  v1::GenerateRequest request = make_request();
  request.mutable_spec()->set_num_inference_steps(6);
  request.mutable_queue_timeout()->set_nanos(300 * 1000 * 1000);
  GenerateCall call(generation(), request);
  EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
}

TEST_F(CancelTest, HigherPriorityRunsFirst) {
  GenerateCall running(generation(), endless_request());
  ASSERT_TRUE(running.wait_for_step(1));
  v1::GenerateRequest request = short_request();
  request.set_priority(0);
  GenerateCall low(generation(), request);
  ASSERT_TRUE(low.wait_for_state(Job::STATE_QUEUED));
  request.set_priority(9);
  GenerateCall high(generation(), request);
  ASSERT_TRUE(high.wait_for_state(Job::STATE_QUEUED));
  GenerateCall high_too(generation(), request);
  ASSERT_TRUE(high_too.wait_for_state(Job::STATE_QUEUED));
  running.cancel();
  ASSERT_TRUE(low.finish().ok()) << describe(low.finish());
  ASSERT_TRUE(high.finish().ok()) << describe(high.finish());
  ASSERT_TRUE(high_too.finish().ok()) << describe(high_too.finish());
  const auto start = [](const GenerateCall& call) {
    const auto& time = call.job().start_time();
    return absl::FromUnixSeconds(time.seconds()) +
           absl::Nanoseconds(time.nanos());
  };
  EXPECT_LT(start(high), start(high_too));
  EXPECT_LT(start(high_too), start(low));
}

}  // namespace
}  // namespace ferry
