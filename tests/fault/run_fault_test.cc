// Faults while a generation runs, at every stage: what its client sees, and
// that the next one succeeds.

#include <signal.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fault/fault_fixture.h"
#include "tests/support/packages.h"
#include "tests/support/processes.h"

namespace ferry {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::Values;
using v1::Job;

// A fault point, with the hit that counts.
class RunFaultTest : public FaultFixture<RunFaultTest>,
                     public ::testing::WithParamInterface<std::string> {
 public:
  static std::string package() { return make_package(); }

 protected:
  static void arm(const std::string& kind) {
    faults().arm(kind + "@" + GetParam());
  }

  static std::string bytes_of(GenerateCall& call) {
    return call.outputs().empty() ? "" : call.outputs().at(0);
  }

  // What a request gives without a fault.
  static std::string good_bytes() {
    GenerateCall call(generation(), make_request());
    EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
    return bytes_of(call);
  }
};

TEST_P(RunFaultTest, Crash) {
  const std::string expected = good_bytes();
  const v1::Pipeline before = pipeline();
  ReadinessWatch watch(daemon());
  arm("crash");
  GenerateCall call(generation(), make_request());
  expect_worker_lost(call, "killed by signal 6");
  EXPECT_GE(faults().hits(), 1);
  expect_replaced(watch, before);
  EXPECT_EQ(good_bytes(), expected);
}

TEST_P(RunFaultTest, Hang) {
  const v1::Pipeline before = pipeline();
  ReadinessWatch watch(daemon());
  arm("hang");
  GenerateCall call(generation(), make_request());
  expect_worker_lost(call, "step_timeout");
  expect_replaced(watch, before);
}

TEST_P(RunFaultTest, OutOfMemory) {
  const std::string expected = good_bytes();
  const v1::Pipeline before = pipeline();
  arm("oom");
  GenerateCall call(generation(), make_request());
  EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << describe(call.finish());
  EXPECT_EQ(parse_details(call.finish()).reason, "GPU_OUT_OF_MEMORY");
  EXPECT_EQ(call.job().state(), Job::STATE_FAILED);
  EXPECT_TRUE(call.job().outputs().empty());
  EXPECT_EQ(daemon().check_health("readiness"), HealthCheckResponse::SERVING);
  expect_same_worker(before);
  EXPECT_EQ(good_bytes(), expected);
}

TEST_P(RunFaultTest, Slow) {
  const std::string expected = good_bytes();
  const v1::Pipeline before = pipeline();
  ReadinessWatch watch(daemon());
  arm("slow");
  GenerateCall call(generation(), make_request());
  EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
  EXPECT_GE(faults().hits(), 1);
  EXPECT_EQ(bytes_of(call), expected);
  expect_same_worker(before);
}

TEST_P(RunFaultTest, CancelledWhileItHangs) {
  const v1::Pipeline before = pipeline();
  arm("hang");
  GenerateCall call(generation(), make_request());
  ASSERT_TRUE(call.wait_for_state(Job::STATE_RUNNING));
  ASSERT_TRUE(faults().wait_for_hit());
  call.cancel();
  EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::CANCELLED);
  faults().disarm();
  // The rank is free again, with the same worker.
  expect_same_worker(before);
}

std::string point_name(const ::testing::TestParamInfo<std::string>& info) {
  return info.param.substr(0, info.param.find(':'));
}

INSTANTIATE_TEST_SUITE_P(Points, RunFaultTest,
                         Values("encode_prompt", "denoise_step:3", "decode",
                                "encode_image", "send_output"),
                         point_name);

// Between ferryd and a worker that is busy.
class HeartbeatFaultTest : public FaultFixture<HeartbeatFaultTest> {
 public:
  static std::string package() { return slow_package(); }

 protected:
  static v1::GenerateRequest endless_request() {
    v1::GenerateRequest request = make_request();
    request.mutable_spec()->set_num_inference_steps(200);
    return request;
  }

  // Loses the worker by a fault in its heartbeat.
  static void expect_lost(const std::string& fault, const std::string& why) {
    const v1::Pipeline before = pipeline();
    ReadinessWatch watch(daemon());
    GenerateCall running(generation(), endless_request());
    ASSERT_TRUE(running.wait_for_step(1));
    GenerateCall queued(generation(), make_request());
    ASSERT_TRUE(queued.wait_for_state(Job::STATE_QUEUED));
    faults().arm(fault);
    expect_worker_lost(running, why);
    faults().disarm();
    // What had not begun takes no notice.
    EXPECT_TRUE(queued.finish().ok()) << describe(queued.finish());
    expect_replaced(watch, before);
  }
};

TEST_F(HeartbeatFaultTest, Crash) {
  expect_lost("crash@heartbeat", "killed by signal 6");
}

TEST_F(HeartbeatFaultTest, HangOfAll) {
  expect_lost("hang@heartbeat:*", "heartbeat_timeout");
}

// The whole process is stopped in mid-step: what tells of progress is silent,
// too.
TEST_F(HeartbeatFaultTest, StoppedInMidStep) {
  const v1::Pipeline before = pipeline();
  const pid_t pid = worker_pid();
  ReadinessWatch watch(daemon());
  GenerateCall running(generation(), endless_request());
  ASSERT_TRUE(running.wait_for_step(2));
  kill(pid, SIGSTOP);
  expect_worker_lost(running, "heartbeat_timeout");
  expect_replaced(watch, before);
  EXPECT_TRUE(eventually([&] { return process_state(pid) == 0; }));
}

TEST_F(HeartbeatFaultTest, OutOfMemory) {
  expect_lost("oom@heartbeat", "broke its connection");
}

// One that is not answered is no loss.
TEST_F(HeartbeatFaultTest, HangOfOne) {
  const v1::Pipeline before = pipeline();
  faults().arm("hang@heartbeat");
  ASSERT_TRUE(faults().wait_for_hit(2));
  faults().disarm();
  expect_same_worker(before);
}

TEST_F(HeartbeatFaultTest, Slow) {
  const v1::Pipeline before = pipeline();
  faults().arm("slow@heartbeat:*:300");
  GenerateCall call(generation(), make_request());
  EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
  ASSERT_TRUE(faults().wait_for_hit(3));
  expect_same_worker(before);
}

}  // namespace
}  // namespace ferry
