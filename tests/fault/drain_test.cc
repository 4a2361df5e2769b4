// SIGTERM and SIGINT while there is work in one stage after the other.

#include <signal.h>

#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fault/fault_fixture.h"
#include "tests/support/job_calls.h"
#include "tests/support/packages.h"
#include "tests/support/png_image.h"

namespace ferry {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::Combine;
using ::testing::SizeIs;
using ::testing::Values;
using v1::Job;

class DrainFixture : public DaemonFixture {
 protected:
  Daemon& start_faulty(const std::vector<std::string>& flags = {}) {
    Daemon::Options options = faults_.daemon_options("faulty", large_package());
    options.flags.insert(options.flags.end(), flags.begin(), flags.end());
    return start_ready(options);
  }

  // Blocks until it drains: readiness is red before anything is refused.
  static void signal_and_wait(Daemon& daemon, int signal) {
    daemon.process().send_signal(signal);
    ASSERT_TRUE(eventually([&] {
      return daemon.check_health("readiness") ==
             HealthCheckResponse::NOT_SERVING;
    }));
  }

  static void expect_draining(GenerateCall& call) {
    EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::UNAVAILABLE)
        << describe(call.finish());
    EXPECT_EQ(parse_details(call.finish()).reason, "SERVER_DRAINING");
    EXPECT_EQ(call.job().state(), Job::STATE_CANCELLED);
  }

  static void expect_complete(GenerateCall& call) {
    ASSERT_TRUE(call.finish().ok()) << describe(call.finish());
    EXPECT_EQ(call.job().state(), Job::STATE_SUCCEEDED);
    ASSERT_FALSE(call.job().outputs().empty());
    for (const v1::OutputInfo& info : call.job().outputs()) {
      EXPECT_EQ(sha256_hex(call.outputs().at(info.index())), info.sha256());
    }
  }

  // Starts a job and reads nothing of it from when it runs; returns when it has
  // succeeded.
  static void wait_until_streaming(Daemon& daemon, GenerateCall& call) {
    ASSERT_TRUE(call.wait_for_state(Job::STATE_RUNNING));
    const std::string name = call.job().name();
    ASSERT_TRUE(eventually([&] {
      return get_job(daemon.generation(), name).response.job().state() ==
             Job::STATE_SUCCEEDED;
    }));
  }

  void expect_exits(Daemon& daemon, int code) {
    const auto exit = daemon.process().wait(kPatience);
    ASSERT_TRUE(exit.has_value()) << daemon.log();
    EXPECT_EQ(exit->code, code) << daemon.log();
    expect_exit(code);
  }

  Faults faults_;
};

// The stage in which the worker is when the signal comes, and the signal.
class DrainTest
    : public DrainFixture,
      public ::testing::WithParamInterface<std::tuple<const char*, int>> {
 protected:
  static std::string stage() { return std::get<0>(GetParam()); }
  static int signal() { return std::get<1>(GetParam()); }
};

TEST_P(DrainTest, FinishesWhatRunsAndRefusesWhatWaits) {
  Daemon& daemon = start_faulty();
  faults_.arm(absl::StrCat("hang@", stage()));
  GenerateCall running(daemon.generation(), make_request());
  ASSERT_TRUE(running.wait_for_state(Job::STATE_RUNNING));
  ASSERT_TRUE(faults_.wait_for_hit());
  GenerateCall queued(daemon.generation(), make_request());
  ASSERT_TRUE(queued.wait_for_state(Job::STATE_QUEUED));
  signal_and_wait(daemon, signal());
  expect_draining(queued);
  EXPECT_TRUE(daemon.process().is_running());
  faults_.disarm();
  expect_complete(running);
  expect_exits(daemon, 0);
}

// Not for each order of signals: such an end takes seconds.
class SecondSignalTest : public DrainFixture,
                         public ::testing::WithParamInterface<const char*> {};

TEST_P(SecondSignalTest, LosesWhatRuns) {
  Daemon& daemon = start_faulty();
  faults_.arm(absl::StrCat("hang@", GetParam()));
  GenerateCall running(daemon.generation(), make_request());
  ASSERT_TRUE(running.wait_for_state(Job::STATE_RUNNING));
  ASSERT_TRUE(faults_.wait_for_hit());
  signal_and_wait(daemon, SIGTERM);
  daemon.process().send_signal(SIGINT);
  expect_draining(running);
  expect_exits(daemon, 3);
}

const auto kStages = Values("encode_prompt", "denoise_step", "decode",
                            "encode_image", "send_output");

INSTANTIATE_TEST_SUITE_P(Stages, SecondSignalTest, kStages,
                         [](const ::testing::TestParamInfo<const char*>& info) {
                           return info.param;
                         });

INSTANTIATE_TEST_SUITE_P(
    Stages, DrainTest, Combine(kStages, Values(SIGTERM, SIGINT)),
    [](const ::testing::TestParamInfo<DrainTest::ParamType>& info) {
      return absl::StrCat(
          std::get<0>(info.param),
          std::get<1>(info.param) == SIGTERM ? "_SIGTERM" : "_SIGINT");
    });

class StreamDrainTest : public DrainFixture,
                        public ::testing::WithParamInterface<int> {};

// The client takes its time: it gets every byte before the daemon ends.
TEST_P(StreamDrainTest, WaitsForTheReader) {
  Daemon& daemon = start_faulty();
  GenerateCall call(daemon.generation(), make_large_request());
  ASSERT_NO_FATAL_FAILURE(wait_until_streaming(daemon, call));
  signal_and_wait(daemon, GetParam());
  EXPECT_TRUE(daemon.process().is_running());
  expect_complete(call);
  EXPECT_THAT(call.outputs(), SizeIs(4));
  expect_exits(daemon, 0);
}

TEST_P(StreamDrainTest, SecondSignalEndsTheStream) {
  Daemon& daemon = start_faulty();
  GenerateCall call(daemon.generation(), make_large_request());
  ASSERT_NO_FATAL_FAILURE(wait_until_streaming(daemon, call));
  signal_and_wait(daemon, GetParam());
  daemon.process().send_signal(GetParam());
  expect_exits(daemon, 3);
  EXPECT_FALSE(call.finish().ok());
}

INSTANTIATE_TEST_SUITE_P(Signals, StreamDrainTest, Values(SIGTERM, SIGINT),
                         [](const ::testing::TestParamInfo<int>& info) {
                           return info.param == SIGTERM ? "SIGTERM" : "SIGINT";
                         });

// A reader that never comes back holds the end up for its own timeout only.
TEST_F(DrainFixture, SlowReaderDoesNotHoldTheEndUp) {
  Daemon& daemon = start_faulty({"--slow_reader_timeout=500ms"});
  GenerateCall call(daemon.generation(), make_large_request());
  ASSERT_NO_FATAL_FAILURE(wait_until_streaming(daemon, call));
  daemon.process().send_signal(SIGTERM);
  expect_exits(daemon, 0);
  EXPECT_FALSE(call.finish().ok());
}

// SIGSTOP reaches the worker, too; it must not outlive the end.
TEST_F(DrainFixture, StoppedWorkerIsKilledAtTheEnd) {
  Daemon& daemon = start_faulty();
  GenerateCall call(daemon.generation(), make_request());
  ASSERT_TRUE(call.finish().ok()) << describe(call.finish());
  kill(daemon.wait_for_worker(), SIGSTOP);
  daemon.process().send_signal(SIGTERM);
  expect_exits(daemon, 0);
}

// A worker dies while the daemon drains: its job fails, the daemon ends.
TEST_F(DrainFixture, CrashDuringTheDrain) {
  Daemon& daemon = start_faulty();
  faults_.arm("hang@denoise_step");
  GenerateCall running(daemon.generation(), make_request());
  ASSERT_TRUE(running.wait_for_state(Job::STATE_RUNNING));
  ASSERT_TRUE(faults_.wait_for_hit());
  signal_and_wait(daemon, SIGTERM);
  kill(daemon.wait_for_worker(), SIGKILL);
  expect_worker_lost(running, "killed by signal 9");
  expect_exits(daemon, 0);
}

}  // namespace
}  // namespace ferry
