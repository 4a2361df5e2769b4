#include "server/frontend/daemon.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/server.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ferry/v1/generation_service.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/core/errors.h"
#include "server/frontend/testing/test_frontend.h"

namespace ferry {
namespace {

// Runs a daemon on a thread of its own, with a fake rank for workers.
class DaemonTest : public ::testing::Test {
 protected:
  void start() {
    parts_.config.address_file = absl::StrCat(
        getenv("TEST_TMPDIR"), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name(),
        ".addresses");
    Daemon::Parts parts;
    parts.config = &parts_.config;
    parts.directory = &parts_.directory;
    parts.manager = &parts_.manager;
    parts.board = &parts_.board;
    parts.reporter = &parts_.reporter;
    parts.end = &end_;
    parts.clock = &parts_.clock;
    parts.start_workers = [this] { parts_.make_ready(); };
    parts.stop_workers = [this] {
      parts_.rank->set_automatic();
      parts_.manager.remove_rank(kTestPipeline, parts_.rank);
      workers_stopped_ = true;
    };
    parts.arm_hard_exit = [this] { hard_exit_armed_ = true; };
    daemon_ = std::make_unique<Daemon>(std::move(parts));
    thread_ = std::thread([this] { code_ = daemon_->run(); });
  }

  // Blocks until readiness is green.
  void connect() {
    std::string address;
    const absl::Time end = absl::Now() + absl::Seconds(20);
    while (address.empty() && absl::Now() < end) {
      std::ifstream file(parts_.config.address_file);
      std::getline(file, address);
    }
    ASSERT_EQ(address.rfind("grpc=", 0), 0u) << address;
    channel_ = connect_to(address.substr(5));
    stub_ = v1::GenerationService::NewStub(channel_);
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service("readiness");
    const auto watch =
        grpc::health::v1::Health::NewStub(channel_)->Watch(&context, request);
    grpc::health::v1::HealthCheckResponse response;
    while (response.status() !=
           grpc::health::v1::HealthCheckResponse::SERVING) {
      ASSERT_TRUE(watch->Read(&response));
    }
    context.TryCancel();
    watch->Finish();
  }

  ExitCode join() {
    thread_.join();
    EXPECT_EQ(daemon_->state(), Daemon::State::kStopped);
    return code_;
  }

  // The status with which a new Generate call ends.
  grpc::Status generate() {
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, make_test_request());
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish();
  }

  TestFrontend parts_;
  EndRequests end_{Clock::real()};
  std::atomic<bool> workers_stopped_{false};
  std::atomic<bool> hard_exit_armed_{false};
  std::unique_ptr<Daemon> daemon_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
  ExitCode code_ = kDrained;
  std::thread thread_;
};

// A Generate call that runs on a thread of its own.
class RunningCall {
 public:
  explicit RunningCall(v1::GenerationService::Stub& stub)
      : reader_(stub.Generate(&context_, make_test_request())) {}

  void read_to(v1::Job::State state) {
    v1::GenerateResponse response;
    while (response.event().job().state() != state) {
      ASSERT_TRUE(reader_->Read(&response));
    }
  }
  grpc::Status finish() {
    v1::GenerateResponse response;
    while (reader_->Read(&response)) {
    }
    return reader_->Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
};

TEST_F(DaemonTest, SigtermWhileIdleEndsWithZero) {
  start();
  connect();
  EXPECT_EQ(daemon_->state(), Daemon::State::kServing);
  end_.on_signal(SIGTERM);
  EXPECT_EQ(join(), kDrained);
  EXPECT_TRUE(workers_stopped_);
  EXPECT_TRUE(hard_exit_armed_);
}

TEST_F(DaemonTest, DrainFinishesWhatRunsAndFailsWhatWaits) {
  start();
  connect();
  RunningCall running(*stub_);
  running.read_to(v1::Job::STATE_RUNNING);
  RunningCall queued(*stub_);
  queued.read_to(v1::Job::STATE_QUEUED);
  end_.on_signal(SIGTERM);
  const grpc::Status status = queued.finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(reason_of(status), "SERVER_DRAINING");
  EXPECT_FALSE(parts_.board.find("readiness").value());
  EXPECT_EQ(reason_of(generate()), "SERVER_DRAINING");
  EXPECT_FALSE(hard_exit_armed_);
  parts_.rank->end_run(absl::OkStatus());
  EXPECT_TRUE(running.finish().ok());
  EXPECT_EQ(join(), kDrained);
}

TEST_F(DaemonTest, RequestsAreTakenDuringLameDuck) {
  parts_.config.lame_duck = absl::Hours(1);
  parts_.rank->set_automatic();
  start();
  connect();
  end_.on_signal(SIGTERM);
  while (parts_.board.find("readiness").value()) {
  }
  EXPECT_TRUE(generate().ok());
  // A second signal cuts it short.
  end_.on_signal(SIGTERM);
  EXPECT_EQ(join(), kWorkLost);
}

TEST_F(DaemonTest, DrainTimeoutLosesWork) {
  parts_.config.drain_timeout = absl::Milliseconds(100);
  start();
  connect();
  RunningCall running(*stub_);
  running.read_to(v1::Job::STATE_RUNNING);
  end_.on_signal(SIGTERM);
  const grpc::Status status = running.finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(reason_of(status), "SERVER_DRAINING");
  EXPECT_EQ(join(), kWorkLost);
}

TEST_F(DaemonTest, SecondSignalLosesWorkAtOnce) {
  start();
  connect();
  RunningCall running(*stub_);
  running.read_to(v1::Job::STATE_RUNNING);
  end_.on_signal(SIGTERM);
  end_.on_signal(SIGINT);
  EXPECT_FALSE(running.finish().ok());
  EXPECT_EQ(join(), kWorkLost);
}

TEST_F(DaemonTest, AFailureEndsWithItsOwnCode) {
  start();
  connect();
  end_.on_failure(kWorkersUnrecoverable, "died too often");
  EXPECT_EQ(join(), kWorkersUnrecoverable);
}

TEST_F(DaemonTest, ASignalBeforeTheStartIsNotLost) {
  end_.on_signal(SIGTERM);
  start();
  EXPECT_EQ(join(), kDrained);
}

TEST_F(DaemonTest, AnAddressThatCannotBeHadIsNoStart) {
  parts_.config.grpc_address = "192.0.2.1:1";
  start();
  EXPECT_EQ(join(), kCannotStart);
  EXPECT_FALSE(workers_stopped_);
}

TEST(EndRequestsTest, TheFirstRequestDecides) {
  EndRequests end(Clock::real());
  end.on_failure(kCannotStart, "cannot be loaded");
  end.on_failure(kWorkersUnrecoverable, "died");
  end.wait();
  EXPECT_EQ(end.code(), kCannotStart);
  EXPECT_EQ(end.why(), "cannot be loaded");
  EXPECT_FALSE(end.is_urgent());
  end.on_signal(SIGTERM);
  EXPECT_TRUE(end.is_urgent());
  EXPECT_EQ(end.code(), kCannotStart);
}

}  // namespace
}  // namespace ferry
