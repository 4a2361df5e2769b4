// Faults while a worker starts and loads, from exec to warm-up.

#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fault/fault_fixture.h"
#include "tests/support/files.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;
using ::testing::Values;
using v1::Job;

constexpr char kOutOfMemory[] = "out of device memory";

std::string point_name(const ::testing::TestParamInfo<std::string>& info) {
  return info.param;
}

// A worker is lost in mid-step, and the next one meets a fault.
class LoadFaultTest : public FaultFixture<LoadFaultTest>,
                      public ::testing::WithParamInterface<std::string> {
 public:
  static std::string package() { return slow_package(); }

 protected:
  static v1::GenerateRequest request_of_steps(int steps) {
    v1::GenerateRequest request = make_request();
    request.mutable_spec()->set_num_inference_steps(steps);
    return request;
  }

  // Arms the fault at this test's point, loses the worker, and expects that the
  // one after the next serves. A job that waited meanwhile takes no notice.
  static void expect_recovers(const std::string& kind) {
    const v1::Pipeline before = pipeline();
    ReadinessWatch watch(daemon());
    GenerateCall running(generation(), request_of_steps(200));
    ASSERT_TRUE(running.wait_for_step(1));
    GenerateCall queued(generation(), request_of_steps(1));
    ASSERT_TRUE(queued.wait_for_state(Job::STATE_QUEUED));
    faults().arm(absl::StrCat(kind, "@", GetParam()));
    kill(static_cast<pid_t>(before.ranks(0).pid()), SIGKILL);
    expect_worker_lost(running, "killed by signal 9");
    ASSERT_TRUE(faults().wait_for_hit());
    if (kind == "hang") {
      expect_loading(daemon());
      EXPECT_EQ(daemon().check_health("readiness"),
                HealthCheckResponse::NOT_SERVING);
      EXPECT_EQ(daemon().check_health("liveness"),
                HealthCheckResponse::SERVING);
    }
    expect_replaced(watch, before);
    // The worker with the fault, and the one after it.
    EXPECT_GT(pipeline().generation(), before.generation() + 1);
    EXPECT_TRUE(queued.finish().ok()) << describe(queued.finish());
  }
};

TEST_P(LoadFaultTest, Crash) { expect_recovers("crash"); }

TEST_P(LoadFaultTest, Hang) { expect_recovers("hang"); }

TEST_P(LoadFaultTest, Slow) {
  const v1::Pipeline before = pipeline();
  ReadinessWatch watch(daemon());
  faults().arm(absl::StrCat("slow@", GetParam()));
  kill(static_cast<pid_t>(before.ranks(0).pid()), SIGKILL);
  expect_replaced(watch, before);
  EXPECT_GE(faults().hits(), 1);
}

INSTANTIATE_TEST_SUITE_P(Points, LoadFaultTest,
                         Values("start", "connect", "load_package",
                                "load_module", "warm_up"),
                         point_name);

// Before a worker can report anything, a lack of memory ends it.
using EarlyFaultTest = LoadFaultTest;

TEST_P(EarlyFaultTest, OutOfMemory) { expect_recovers("oom"); }

INSTANTIATE_TEST_SUITE_P(EarlyPoints, EarlyFaultTest,
                         Values("start", "connect"), point_name);

// What a worker reports while it loads is final.
class LoadErrorTest : public DaemonFixture,
                      public ::testing::WithParamInterface<std::string> {
 protected:
  Daemon::Options options(const std::vector<std::string>& flags = {}) const {
    Daemon::Options options = faults_.daemon_options("faulty", make_package());
    options.flags.insert(options.flags.end(), flags.begin(), flags.end());
    return options;
  }

  Faults faults_;
};

TEST_P(LoadErrorTest, OutOfMemoryEndsTheDaemon) {
  faults_.arm(absl::StrCat("oom@", GetParam()));
  Daemon& daemon = start(options());
  const auto exit = daemon.process().wait(kPatience);
  ASSERT_TRUE(exit.has_value()) << daemon.log();
  EXPECT_EQ(exit->code, 2);
  EXPECT_THAT(daemon.log(), HasSubstr(kOutOfMemory));
  EXPECT_EQ(faults_.hits(), 1) << "it was tried again";
  expect_exit(2);
}

INSTANTIATE_TEST_SUITE_P(Points, LoadErrorTest,
                         Values("load_package", "load_module", "warm_up"),
                         point_name);

using LaterLoadErrorTest = LoadErrorTest;

TEST_F(LaterLoadErrorTest, OutOfMemoryAfterARestartFailsThePipelineOnly) {
  Daemon& daemon = start_ready(options({"--exit_on_load_error=false"}));
  faults_.arm("oom@load_module");
  kill(daemon.wait_for_worker(), SIGKILL);
  ASSERT_TRUE(eventually([&] {
    return daemon.get_pipeline("pipelines/faulty").state() ==
           v1::Pipeline::STATE_FAILED;
  }));
  EXPECT_THAT(daemon.get_pipeline("pipelines/faulty").error().message(),
              HasSubstr(kOutOfMemory));
  GenerateCall call(daemon.generation(), make_request());
  EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(parse_details(call.finish()).reason, "PIPELINE_FAILED");
  EXPECT_EQ(daemon.check_health("readiness"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(daemon.check_health("liveness"), HealthCheckResponse::SERVING);
  EXPECT_TRUE(daemon.worker_pids().empty());
}

class SpawnFaultTest : public DaemonFixture {
 protected:
  Faults faults_;
};

// Every worker crashes: jobs that wait learn that it is over.
TEST_F(SpawnFaultTest, SpentBudgetFailsWaitingJobsAndEndsTheDaemon) {
  Daemon::Options options = faults_.daemon_options("faulty", slow_package());
  options.flags.back() = "--worker_restart_limit=2";
  Daemon& daemon = start_ready(options);
  v1::GenerateRequest request = make_request();
  request.mutable_spec()->set_num_inference_steps(200);
  GenerateCall running(daemon.generation(), request);
  ASSERT_TRUE(running.wait_for_step(1));
  GenerateCall queued(daemon.generation(), make_request());
  ASSERT_TRUE(queued.wait_for_state(Job::STATE_QUEUED));
  faults_.arm("crash@load_module:*");
  kill(daemon.wait_for_worker(), SIGKILL);
  expect_worker_lost(running, "killed by signal 9");
  EXPECT_EQ(queued.finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION)
      << describe(queued.finish());
  EXPECT_EQ(parse_details(queued.finish()).reason, "PIPELINE_FAILED");
  EXPECT_EQ(queued.job().state(), Job::STATE_FAILED);
  const auto exit = daemon.process().wait(kPatience);
  ASSERT_TRUE(exit.has_value()) << daemon.log();
  EXPECT_EQ(exit->code, 4);
  EXPECT_EQ(faults_.hits(), 2);
  expect_exit(4);
}

// The program is away for a while, as in a botched update.
TEST_F(SpawnFaultTest, WorkerThatCannotBeExecutedIsTriedAgain) {
  Daemon::Options options = faults_.daemon_options("faulty", make_package());
  const std::string program = runfile("tests/fault/ferry_worker");
  const std::string path = make_directory("program") + "/ferry_worker";
  std::filesystem::create_symlink(program, path);
  options.flags[0] = absl::StrCat("--worker_path=", path);
  Daemon& daemon = start_ready(options);
  ReadinessWatch watch(daemon);

  std::filesystem::remove(path);
  kill(daemon.wait_for_worker(), SIGKILL);
  EXPECT_EQ(watch.next(), HealthCheckResponse::NOT_SERVING);
  ASSERT_TRUE(eventually([&] {
    return daemon.get_pipeline("pipelines/faulty").generation() > 2;
  }));
  expect_loading(daemon);
  EXPECT_THAT(daemon.log(), HasSubstr(absl::StrCat("cannot start ", path)));
  std::filesystem::create_symlink(program, path);
  EXPECT_EQ(watch.next(), HealthCheckResponse::SERVING);
  expect_serves(daemon);
}

}  // namespace
}  // namespace ferry
