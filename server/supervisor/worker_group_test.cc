#include "server/supervisor/worker_group.h"

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "platform/base/clock.h"
#include "platform/os/process_spawner.h"
#include "server/core/errors.h"
#include "server/supervisor/log_drain.h"
#include "server/supervisor/worker_settings.h"

namespace ferry {
namespace {

// What a group does is in worker_supervisor_test.cc: with real processes.
class WorkerGroupDeathTest : public testing::Test {
 protected:
  WorkerGroupDeathTest()
      : drain_([](const LogDrain::Source&, absl::string_view) {},
               Clock::real()) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    settings_.command = {"/no/such/worker"};
    settings_.pipeline = "pipelines/test";
  }

  WorkerSettings settings_;
  ProcessSpawner spawner_;
  LogDrain drain_;
};

TEST_F(WorkerGroupDeathTest, IsReadByThoseWhomItHasLoadedForOnly) {
  WorkerGroup group(settings_, 1, spawner_, drain_);
  constexpr char kNotLoaded[] = "check failed: !ranks_.empty";
  const auto expect_unread = [&] {
    EXPECT_DEATH((void)group.wait(), kNotLoaded);
    EXPECT_DEATH((void)group.ranks(), kNotLoaded);
    EXPECT_DEATH((void)group.description(), kNotLoaded);
    EXPECT_DEATH((void)group.offloads(), kNotLoaded);
    EXPECT_DEATH(group.set_lost(worker_lost("test", "gone")), kNotLoaded);
  };
  expect_unread();
  EXPECT_FALSE(group.load().ok());
  expect_unread();
  EXPECT_DEATH((void)group.load(), "state_ == WorkerState::kStarting");
}

TEST_F(WorkerGroupDeathTest, HasRanksAndAGateForTheExternalOnes) {
  settings_.ranks = 0;
  EXPECT_DEATH(WorkerGroup(settings_, 1, spawner_, drain_),
               "settings_.ranks >= 1");
  settings_.ranks = 1;
  settings_.external_ranks = 1;
  EXPECT_DEATH(WorkerGroup(settings_, 1, spawner_, drain_),
               "settings_.external_ranks < settings_.ranks");
  settings_.ranks = 2;
  EXPECT_DEATH(WorkerGroup(settings_, 1, spawner_, drain_),
               "settings_.gate != nullptr");
}

}  // namespace
}  // namespace ferry
