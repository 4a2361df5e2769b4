// Workers that die, hang or fail, and what clients and operators see of it.

#include <signal.h>

#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/generate_call.h"
#include "tests/support/job_calls.h"
#include "tests/support/packages.h"
#include "tests/support/processes.h"

namespace ferry {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using v1::Job;

constexpr char kPipeline[] = "pipelines/slow";

class WorkerFaultTest : public DaemonFixture {
 protected:
  Daemon& start_slow(std::vector<std::string> flags = {}) {
    return start_ready({{{"slow", slow_package()}}, std::move(flags)});
  }

  static v1::GenerateRequest endless_request() {
    v1::GenerateRequest request = make_request();
    request.mutable_spec()->set_num_inference_steps(200);
    return request;
  }

  static pid_t only_worker(Daemon& daemon) {
    const std::vector<pid_t> pids = daemon.worker_pids();
    EXPECT_THAT(pids, SizeIs(1));
    return pids.empty() ? 0 : pids[0];
  }

  static void expect_worker_lost(GenerateCall& call) {
    EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::UNAVAILABLE)
        << describe(call.finish());
    const ErrorDetails details = parse_details(call.finish());
    EXPECT_EQ(details.reason, "WORKER_LOST");
    EXPECT_TRUE(details.retry_delay.has_value());
    EXPECT_EQ(call.job().state(), Job::STATE_FAILED);
    EXPECT_EQ(parse_details(call.job().error()).reason, "WORKER_LOST");
  }

  // A new request succeeds within 5 s; while the group restarts it is told to
  // come again.
  static void expect_recovers(Daemon& daemon) {
    v1::GenerateRequest request = make_request();
    request.mutable_spec()->set_num_inference_steps(1);
    const absl::Time start = absl::Now();
    EXPECT_TRUE(eventually([&] {
      GenerateCall call(daemon.generation(), request);
      if (call.finish().ok()) return true;
      EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::UNAVAILABLE);
      EXPECT_EQ(parse_details(call.finish()).reason, "PIPELINE_LOADING");
      EXPECT_TRUE(parse_details(call.finish()).retry_delay.has_value());
      return false;
    }));
    EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  }
};

TEST_F(WorkerFaultTest, KilledInMidStep) {
  Daemon& daemon = start_slow();
  const pid_t pid = only_worker(daemon);
  const v1::Pipeline before = daemon.get_pipeline(kPipeline);
  EXPECT_EQ(before.state(), v1::Pipeline::STATE_READY);
  ASSERT_THAT(before.ranks(), SizeIs(1));
  EXPECT_EQ(before.ranks(0).pid(), pid);

  GenerateCall call(daemon.generation(), endless_request());
  ASSERT_TRUE(call.wait_for_step(2));
  EXPECT_EQ(daemon.get_pipeline(kPipeline).ranks(0).job(), call.job().name());
  kill(pid, SIGKILL);
  expect_worker_lost(call);
  expect_recovers(daemon);

  const v1::Pipeline after = daemon.get_pipeline(kPipeline);
  EXPECT_EQ(after.state(), v1::Pipeline::STATE_READY);
  EXPECT_EQ(after.generation(), before.generation() + 1);
  EXPECT_EQ(after.ranks(0).pid(), only_worker(daemon));
  EXPECT_NE(after.ranks(0).pid(), pid);
}

TEST_F(WorkerFaultTest, HealthTurnsRedAndGreenAgain) {
  Daemon& daemon = start_slow();
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("readiness");
  const auto watch = daemon.health().Watch(&context, request);
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  kill(only_worker(daemon), SIGKILL);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  // Serving means that a request succeeds now.
  v1::GenerateRequest generate = make_request();
  generate.mutable_spec()->set_num_inference_steps(1);
  GenerateCall call(daemon.generation(), generate);
  EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
  EXPECT_EQ(daemon.check_health("liveness"), HealthCheckResponse::SERVING);
  EXPECT_EQ(daemon.check_health(kPipeline), HealthCheckResponse::SERVING);
  context.TryCancel();
  watch->Finish();
}

TEST_F(WorkerFaultTest, QueuedJobsOutliveTheWorker) {
  Daemon& daemon = start_slow();
  GenerateCall running(daemon.generation(), endless_request());
  ASSERT_TRUE(running.wait_for_step(1));
  GenerateCall queued(daemon.generation(), make_request());
  ASSERT_TRUE(queued.wait_for_state(Job::STATE_QUEUED));
  kill(only_worker(daemon), SIGKILL);
  expect_worker_lost(running);
  EXPECT_TRUE(queued.finish().ok()) << describe(queued.finish());
}

TEST_F(WorkerFaultTest, KilledWhileLoading) {
  Daemon& daemon = start({{{"slow", slow_package()}}, {}});
  ASSERT_TRUE(daemon.wait_until_listening()) << daemon.log();
  const pid_t pid = daemon.wait_for_worker();
  ASSERT_NE(pid, 0);
  EXPECT_EQ(daemon.check_health("readiness"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(daemon.check_health("startup"), HealthCheckResponse::SERVING);
  GenerateCall early(daemon.generation(), make_request());
  EXPECT_EQ(early.finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(parse_details(early.finish()).reason, "PIPELINE_LOADING");
  EXPECT_TRUE(parse_details(early.finish()).retry_delay.has_value());
  kill(pid, SIGKILL);
  ASSERT_TRUE(daemon.wait_until_ready()) << daemon.log();
  EXPECT_EQ(daemon.get_pipeline(kPipeline).generation(), 2);
  expect_recovers(daemon);
}

TEST_F(WorkerFaultTest, StoppedWorkerIsReplaced) {
  Daemon& daemon =
      start_slow({"--heartbeat_interval=200ms", "--heartbeat_timeout=2s"});
  const pid_t pid = only_worker(daemon);
  GenerateCall call(daemon.generation(), endless_request());
  ASSERT_TRUE(call.wait_for_step(1));
  kill(pid, SIGSTOP);
  expect_worker_lost(call);
  // The stopped process is gone, not left behind.
  EXPECT_TRUE(eventually([&] { return process_state(pid) == 0; }));
  ASSERT_TRUE(
      daemon.wait_for_health("readiness", HealthCheckResponse::SERVING));
  EXPECT_EQ(daemon.get_pipeline(kPipeline).generation(), 2);
}

TEST_F(WorkerFaultTest, StepThatTakesTooLongLosesTheWorker) {
  Daemon& daemon =
      start_ready({{{"slow", make_package({"--step_ms=2500"})}},
                   {"--heartbeat_interval=200ms", "--step_timeout=1s"}});
  GenerateCall call(daemon.generation(), endless_request());
  ASSERT_TRUE(call.wait_for_state(Job::STATE_RUNNING));
  expect_worker_lost(call);
  EXPECT_TRUE(
      daemon.wait_for_health("readiness", HealthCheckResponse::SERVING));
}

TEST_F(WorkerFaultTest, CancelThatIsNotHonouredLosesTheWorker) {
  Daemon& daemon =
      start_ready({{{"slow", make_package({"--step_ms=2500"})}},
                   {"--heartbeat_interval=200ms", "--cancel_grace=500ms"}});
  GenerateCall call(daemon.generation(), endless_request());
  // In the middle of the second step: before a step it would be honoured.
  ASSERT_TRUE(call.wait_for_step(1));
  ASSERT_TRUE(cancel_job(daemon.generation(), call.job().name()).status.ok());
  // The client asked for the end, and that is what it gets.
  EXPECT_EQ(parse_details(call.finish()).reason, "JOB_CANCELLED");
  EXPECT_TRUE(eventually(
      [&] { return daemon.get_pipeline(kPipeline).generation() == 2; }));
  EXPECT_TRUE(
      daemon.wait_for_health("readiness", HealthCheckResponse::SERVING));
}

TEST_F(WorkerFaultTest, SpentRestartBudgetEndsTheDaemon) {
  Daemon& daemon = start_slow({"--worker_restart_limit=1"});
  const pid_t first = only_worker(daemon);
  kill(first, SIGKILL);
  const pid_t second = daemon.wait_for_worker(first);
  ASSERT_NE(second, 0);
  kill(second, SIGKILL);
  const auto exit = daemon.process().wait(kPatience);
  ASSERT_TRUE(exit.has_value()) << daemon.log();
  EXPECT_EQ(exit->code, 4);
  expect_exit(4);
}

TEST_F(WorkerFaultTest, ModuleThatThrowsFailsItsRequestOnly) {
  Daemon& daemon = start_ready(
      {{{"slow", make_package({"--raise_below_timestep=600"})}}, {}});
  const pid_t pid = only_worker(daemon);
  GenerateCall call(daemon.generation(), make_request());
  EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(parse_details(call.finish()).reason, "INTERNAL");
  EXPECT_EQ(call.job().state(), Job::STATE_FAILED);
  // Short, and one line: no TorchScript stack.
  EXPECT_LE(call.finish().error_message().size(), 1024u);
  EXPECT_EQ(call.finish().error_message().find('\n'), std::string::npos);
  // The worker goes on.
  v1::GenerateRequest request = make_request();
  request.mutable_spec()->set_num_inference_steps(1);
  GenerateCall next(daemon.generation(), request);
  EXPECT_TRUE(next.finish().ok()) << describe(next.finish());
  EXPECT_EQ(only_worker(daemon), pid);
}

// Four steps have timesteps 1000, 750, 500 and 250: the third one fails.
TEST_F(WorkerFaultTest, NonFiniteOutputNamesTheStep) {
  Daemon& daemon =
      start_ready({{{"slow", make_package({"--nan_below_timestep=600"})}}, {}});
  GenerateCall call(daemon.generation(), make_request());
  EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::INTERNAL);
  const ErrorDetails details = parse_details(call.finish());
  EXPECT_EQ(details.reason, "NON_FINITE_OUTPUT");
  ASSERT_EQ(details.metadata.count("step"), 1u);
  EXPECT_EQ(details.metadata.at("step"), "3");
  EXPECT_THAT(call.finish().error_message(), HasSubstr("3"));
  v1::GenerateRequest request = make_request();
  request.mutable_spec()->set_num_inference_steps(1);
  GenerateCall next(daemon.generation(), request);
  EXPECT_TRUE(next.finish().ok()) << describe(next.finish());
}

}  // namespace
}  // namespace ferry
