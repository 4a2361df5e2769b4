// How ferryd starts and ends: addresses, health, signals, exit codes.

#include <signal.h>
#include <sys/stat.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/files.h"
#include "tests/support/generate_call.h"
#include "tests/support/job_calls.h"
#include "tests/support/packages.h"
#include "tests/support/processes.h"

namespace ferry {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;
using v1::Job;

class LifecycleTest : public DaemonFixture {
 protected:
  Daemon& start_slow(std::vector<std::string> flags = {}) {
    return start_ready({{{"slow", slow_package()}}, std::move(flags)});
  }

  static v1::GenerateRequest request_of_steps(int steps) {
    v1::GenerateRequest request = make_request();
    request.mutable_spec()->set_num_inference_steps(steps);
    return request;
  }

  // The server-side end of a job that the drain took away.
  static void expect_draining(GenerateCall& call) {
    EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::UNAVAILABLE)
        << describe(call.finish());
    EXPECT_EQ(parse_details(call.finish()).reason, "SERVER_DRAINING");
    EXPECT_EQ(call.job().state(), Job::STATE_CANCELLED);
  }

  static bool is_ready(Daemon& daemon) {
    return daemon.check_health("readiness") == HealthCheckResponse::SERVING;
  }

  static int exit_code(Daemon& daemon) {
    const auto exit = daemon.process().wait(kPatience);
    EXPECT_TRUE(exit.has_value()) << daemon.log();
    return exit.has_value() ? exit->code : -1;
  }
};

TEST_F(LifecycleTest, SigtermDrains) {
  Daemon& daemon = start_slow();
  GenerateCall running(daemon.generation(), request_of_steps(12));
  ASSERT_TRUE(running.wait_for_step(1));
  GenerateCall queued(daemon.generation(), request_of_steps(1));
  ASSERT_TRUE(queued.wait_for_state(Job::STATE_QUEUED));
  daemon.process().send_signal(SIGTERM);
  expect_draining(queued);
  // Red before anything else: the health service still answers.
  EXPECT_FALSE(is_ready(daemon));
  EXPECT_TRUE(running.finish().ok()) << describe(running.finish());
  EXPECT_EQ(running.job().state(), Job::STATE_SUCCEEDED);
  EXPECT_FALSE(running.outputs().empty());
  EXPECT_EQ(exit_code(daemon), 0);
}

TEST_F(LifecycleTest, DrainingRefusesNewRequests) {
  Daemon& daemon = start_slow();
  GenerateCall running(daemon.generation(), request_of_steps(30));
  ASSERT_TRUE(running.wait_for_step(1));
  daemon.process().send_signal(SIGTERM);
  ASSERT_TRUE(eventually([&] { return !is_ready(daemon); }));
  EXPECT_TRUE(eventually([&] {
    GenerateCall refused(daemon.generation(), request_of_steps(1));
    return parse_details(refused.finish()).reason == "SERVER_DRAINING";
  }));
  EXPECT_TRUE(
      cancel_job(daemon.generation(), running.job().name()).status.ok());
  EXPECT_FALSE(running.finish().ok());
  EXPECT_EQ(exit_code(daemon), 0);
}

TEST_F(LifecycleTest, SigintDrainsToo) {
  Daemon& daemon = start_slow();
  daemon.process().send_signal(SIGINT);
  EXPECT_EQ(exit_code(daemon), 0);
}

TEST_F(LifecycleTest, SecondSigtermEndsAtOnce) {
  Daemon& daemon = start_slow();
  GenerateCall running(daemon.generation(), request_of_steps(200));
  ASSERT_TRUE(running.wait_for_step(1));
  daemon.process().send_signal(SIGTERM);
  ASSERT_TRUE(eventually([&] { return !is_ready(daemon); }));
  daemon.process().send_signal(SIGTERM);
  EXPECT_FALSE(running.finish().ok());
  EXPECT_EQ(exit_code(daemon), 3);
  expect_exit(3);
}

TEST_F(LifecycleTest, DrainTimeoutEndsRunningJobs) {
  Daemon& daemon = start_slow({"--drain_timeout=500ms"});
  GenerateCall running(daemon.generation(), request_of_steps(200));
  ASSERT_TRUE(running.wait_for_step(1));
  daemon.process().send_signal(SIGTERM);
  EXPECT_FALSE(running.finish().ok());
  EXPECT_EQ(running.finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(exit_code(daemon), 3);
  expect_exit(3);
}

TEST_F(LifecycleTest, SigtermWhileLoading) {
  Daemon& daemon = start({{{"slow", slow_package()}}, {}});
  ASSERT_TRUE(daemon.wait_until_listening()) << daemon.log();
  ASSERT_NE(daemon.wait_for_worker(), 0);
  daemon.process().send_signal(SIGTERM);
  EXPECT_EQ(exit_code(daemon), 0);
}

TEST_F(LifecycleTest, WorkersDieWithFerryd) {
  Daemon& daemon = start_slow();
  GenerateCall running(daemon.generation(), request_of_steps(200));
  ASSERT_TRUE(running.wait_for_step(1));
  daemon.process().send_signal(SIGKILL);
  EXPECT_EQ(running.finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  // The closing check finds every worker.
  expect_exit(-SIGKILL);
}

TEST_F(LifecycleTest, StoppedWorkersDieWithFerryd) {
  Daemon& daemon = start_slow();
  const pid_t worker = daemon.wait_for_worker();
  kill(worker, SIGSTOP);
  daemon.process().send_signal(SIGKILL);
  expect_exit(-SIGKILL);
}

TEST_F(LifecycleTest, PortInUse) {
  Daemon& first = start_slow();
  Daemon::Options options;
  options.pipelines = {{"slow", slow_package()}};
  options.grpc_address = first.address();
  Daemon second(options);
  EXPECT_FALSE(second.wait_until_listening());
  EXPECT_THAT(second.log(), HasSubstr(first.address()));
  EXPECT_THAT(second.log(), HasSubstr("in use"));
  expect_closes(second, 2);
}

TEST_F(LifecycleTest, HealthOfEveryService) {
  Daemon& daemon = start_slow();
  for (const std::string service :
       {"", "readiness", "liveness", "startup", "ferry.v1.GenerationService",
        "pipelines/slow"}) {
    EXPECT_EQ(daemon.check_health(service), HealthCheckResponse::SERVING)
        << service;
  }
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("nope");
  HealthCheckResponse response;
  EXPECT_EQ(daemon.health().Check(&context, request, &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
  // The health server of its own tells the same.
  const auto own = grpc::health::v1::Health::NewStub(grpc::CreateChannel(
      daemon.health_address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext own_context;
  request.set_service("readiness");
  EXPECT_TRUE(own->Check(&own_context, request, &response).ok());
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
}

TEST_F(LifecycleTest, ServesOnAUnixSocket) {
  // Below /tmp: such a path may have 107 bytes only.
  char directory[] = "/tmp/ferryXXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string path = absl::StrCat(directory, "/ferry.sock");
  Daemon::Options options;
  options.pipelines = {{"tiny", make_package()}};
  options.grpc_address = absl::StrCat("unix:", path);
  Daemon& daemon = start_ready(options);
  EXPECT_EQ(daemon.address(), options.grpc_address);
  GenerateCall call(daemon.generation(), make_request());
  EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
  daemon.process().send_signal(SIGTERM);
  EXPECT_EQ(exit_code(daemon), 0);
  EXPECT_THAT(list_directory(directory), testing::IsEmpty());
  EXPECT_EQ(rmdir(directory), 0);
}

TEST_F(LifecycleTest, TwoPipelinesInOneDaemon) {
  Daemon& daemon = start_ready(
      {{{"first", slow_package()}, {"second", make_package()}}, {}});
  EXPECT_THAT(daemon.worker_pids(), testing::SizeIs(2));
  // One does not wait for the other; the first one is the default.
  GenerateCall slow(daemon.generation(), request_of_steps(200));
  ASSERT_TRUE(slow.wait_for_step(1));
  EXPECT_EQ(slow.job().pipeline(), "pipelines/first");
  v1::GenerateRequest request = request_of_steps(2);
  request.mutable_spec()->set_pipeline("pipelines/second");
  GenerateCall quick(daemon.generation(), request);
  EXPECT_TRUE(quick.finish().ok()) << describe(quick.finish());
  EXPECT_EQ(quick.job().pipeline(), "pipelines/second");

  // Losing one leaves the other in service.
  const v1::Pipeline second = daemon.get_pipeline("pipelines/second");
  kill(static_cast<pid_t>(second.ranks(0).pid()), SIGKILL);
  EXPECT_TRUE(
      daemon.wait_for_health("pipelines/second", HealthCheckResponse::SERVING));
  EXPECT_EQ(daemon.check_health("readiness"), HealthCheckResponse::SERVING);
  EXPECT_EQ(
      get_job(daemon.generation(), slow.job().name()).response.job().state(),
      Job::STATE_RUNNING);

  grpc::ClientContext context;
  v1::ListPipelinesResponse list;
  ASSERT_TRUE(
      daemon.pipeline_service().ListPipelines(&context, {}, &list).ok());
  ASSERT_THAT(list.pipelines(), testing::SizeIs(2));
  EXPECT_EQ(list.pipelines(0).name(), "pipelines/first");
  EXPECT_EQ(list.pipelines(1).name(), "pipelines/second");
}

TEST_F(LifecycleTest, TellsWhatOffloadingDoes) {
  Daemon& daemon = start_slow();
  const v1::Pipeline pipeline = daemon.get_pipeline("pipelines/slow");
  EXPECT_EQ(pipeline.offload().strategy(), "none");
  EXPECT_THAT(pipeline.offload().reason(), HasSubstr("unsupported"));
  EXPECT_EQ(pipeline.offload().device(), "cpu");
  EXPECT_THAT(pipeline.tasks(), testing::ElementsAre("text-to-image"));
  EXPECT_GT(pipeline.limits().max_sequence_length(), 0);
  EXPECT_GT(pipeline.defaults().num_inference_steps(), 0);
}

}  // namespace
}  // namespace ferry
