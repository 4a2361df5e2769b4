#pragma once

#include <signal.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fault/expectations.h"
#include "tests/fault/faults.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/generate_call.h"

namespace ferry {

// Tests that share one daemon whose workers have fault points. It finds out
// within seconds what hangs. Each test begins with a ready pipeline and no
// fault; `Suite` derives from it and has a static `package()`.
template <typename Suite>
class FaultFixture : public SharedDaemonFixture<Suite> {
 public:
  static constexpr char kPipeline[] = "pipelines/faulty";

  static Daemon::Options options() {
    Daemon::Options options =
        faults().daemon_options("faulty", Suite::package());
    // Longer than a busy machine takes for what does not hang.
    for (const char* flag :
         {"--heartbeat_interval=100ms", "--heartbeat_timeout=5s",
          "--step_timeout=3s", "--pipeline_load_timeout=8s"}) {
      options.flags.push_back(flag);
    }
    return options;
  }

 protected:
  using SharedDaemonFixture<Suite>::daemon;

  static Faults& faults() {
    static auto& faults = *new Faults();
    return faults;
  }

  void SetUp() override {
    SharedDaemonFixture<Suite>::SetUp();
    ASSERT_TRUE(daemon().wait_for_health(
        "readiness", grpc::health::v1::HealthCheckResponse::SERVING));
  }

  void TearDown() override {
    faults().disarm();
    SharedDaemonFixture<Suite>::TearDown();
  }

  static v1::Pipeline pipeline() { return daemon().get_pipeline(kPipeline); }
  static pid_t worker_pid() {
    return static_cast<pid_t>(pipeline().ranks(0).pid());
  }

  // Readiness has been red since `watch` began, is green again, and that is
  // true: another worker serves. `before` is the pipeline as it was.
  static void expect_replaced(ReadinessWatch& watch,
                              const v1::Pipeline& before) {
    using grpc::health::v1::HealthCheckResponse;
    EXPECT_EQ(watch.next(), HealthCheckResponse::NOT_SERVING);
    EXPECT_EQ(watch.next(), HealthCheckResponse::SERVING) << daemon().log();
    const v1::Pipeline after = pipeline();
    EXPECT_EQ(after.state(), v1::Pipeline::STATE_READY);
    EXPECT_GT(after.generation(), before.generation());
    ASSERT_EQ(after.ranks_size(), 1);
    EXPECT_NE(after.ranks(0).pid(), before.ranks(0).pid());
    expect_serves(daemon());
  }

  // The worker of `before` serves as if nothing had been.
  static void expect_same_worker(const v1::Pipeline& before) {
    expect_serves(daemon());
    EXPECT_EQ(pipeline().generation(), before.generation());
    EXPECT_EQ(worker_pid(), before.ranks(0).pid());
  }
};

}  // namespace ferry
