// A group loses a rank, the first or the last, dead or silent, at any point of
// its life: nothing of it stays, and the next group serves.

#include <signal.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fault/expectations.h"
#include "tests/fault/group_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/files.h"
#include "tests/support/processes.h"

namespace ferry {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::Combine;
using ::testing::Values;
using v1::Job;

// What a busy machine may add to it.
constexpr absl::Duration kSlack = absl::Seconds(5);

// Workers without LibTorch start in milliseconds; all else is real.
class ScriptedGroupTest : public GroupFixture {
 protected:
  static constexpr int kRanks = 3;
  // As many as the scripted pipeline makes.
  static constexpr int kManySteps = 50;

  Daemon& start_scripted(const std::string& script) {
    Daemon::Options options;
    options.pipelines = {{"group", make_directory("package")}};
    options.flags = group_flags(kRanks);
    for (const std::string& flag :
         {absl::StrCat("--worker_path=",
                       runfile("server/supervisor/testing/scripted_worker")),
          std::string("--worker_restart_backoff_min=1ms"),
          std::string("--worker_restart_backoff_max=1ms"),
          std::string("--worker_restart_limit=1000")}) {
      options.flags.push_back(flag);
    }
    options.environment = {absl::StrCat("FERRY_SCRIPT=", script)};
    return start(options);
  }

  // Blocks until every rank of the first group is there.
  static std::vector<pid_t> wait_for_ranks(Daemon& daemon) {
    std::vector<pid_t> pids;
    EXPECT_TRUE(eventually([&] {
      pids.clear();
      for (int rank = 0; rank < kRanks; ++rank) {
        pids.push_back(find_rank(daemon, rank, 1));
      }
      return std::count(pids.begin(), pids.end(), 0) == 0;
    })) << daemon.log();
    return pids;
  }

  // Which of the calls runs on a rank.
  static GenerateCall* call_on(Daemon& daemon, const Calls& calls, int rank) {
    const std::string job = daemon.get_pipeline(kPipeline).ranks(rank).job();
    for (const auto& call : calls) {
      if (call->job().name() == job) return call.get();
    }
    return nullptr;
  }
};

enum class Point { kStart, kLoad, kIdle, kRunningOnIt, kRunningOnOther, kBusy };

std::string to_string(Point point) {
  switch (point) {
    case Point::kStart:
      return "Start";
    case Point::kLoad:
      return "Load";
    case Point::kIdle:
      return "Idle";
    case Point::kRunningOnIt:
      return "RunningOnIt";
    case Point::kRunningOnOther:
      return "RunningOnOther";
    case Point::kBusy:
      return "Busy";
  }
  return "";
}

// Loss, point, whether it is the last rank and not the first.
class GroupKillTest
    : public ScriptedGroupTest,
      public ::testing::WithParamInterface<std::tuple<Loss, Point, bool>> {
 protected:
  static Loss loss() { return std::get<0>(GetParam()); }
  static Point point() { return std::get<1>(GetParam()); }
  static int rank() { return std::get<2>(GetParam()) ? kRanks - 1 : 0; }

  static absl::Duration deadline() {
    return loss() == Loss::kDead ? kSlack : heartbeat_timeout() + kSlack;
  }

  // The first group, which is slow, loses the rank; returns its processes.
  std::vector<pid_t> lose_before_ready(Daemon& daemon) {
    if (point() == Point::kStart) {
      // At the earliest moment; others may not have been started.
      EXPECT_TRUE(
          eventually([&] { return find_rank(daemon, rank(), 1) != 0; }));
      const pid_t pid = find_rank(daemon, rank(), 1);
      lose(pid, loss());
      return {pid};
    }
    std::vector<pid_t> pids = wait_for_ranks(daemon);
    lose(pids[static_cast<size_t>(rank())], loss());
    return pids;
  }

  // Calls that run as the point says, on ranks of a group that is ready.
  Calls run_calls(Daemon& daemon) {
    if (point() == Point::kIdle) return {};
    Calls calls = start_calls(daemon, kRanks, kManySteps);
    for (const auto& call : calls) EXPECT_TRUE(call->wait_for_step(1));
    if (point() == Point::kBusy) return calls;
    const int kept =
        point() == Point::kRunningOnIt ? rank() : kRanks - 1 - rank();
    GenerateCall* keep = call_on(daemon, calls, kept);
    for (auto& call : calls) {
      if (call.get() == keep) continue;
      call->cancel();
      call->finish();
    }
    // Their ranks are free a step later.
    EXPECT_TRUE(
        eventually([&] { return daemon.unfinished_jobs().size() == 1; }));
    calls.erase(std::remove_if(calls.begin(), calls.end(),
                               [&](auto& call) { return call.get() != keep; }),
                calls.end());
    return calls;
  }

  static void expect_gone(const std::vector<pid_t>& pids) {
    for (const pid_t pid : pids) EXPECT_EQ(process_state(pid), 0) << pid;
  }
};

TEST_P(GroupKillTest, NothingStaysAndTheNextGroupServes) {
  if (point() == Point::kStart || point() == Point::kLoad) {
    Daemon& daemon =
        start_scripted(point() == Point::kLoad ? "hang_in_load;" : "");
    ASSERT_TRUE(daemon.wait_until_listening()) << daemon.log();
    const std::vector<pid_t> pids = lose_before_ready(daemon);
    const absl::Time lost = absl::Now();
    ASSERT_TRUE(eventually(
        [&] { return daemon.get_pipeline(kPipeline).generation() > 1; }));
    EXPECT_LT(absl::Now() - lost, deadline());
    expect_gone(pids);
    expect_next_group_serves(daemon, 1, kRanks);
    EXPECT_THAT(daemon.log(), testing::HasSubstr(why_lost(rank(), loss())));
    return;
  }
  Daemon& daemon = start_scripted("step_ms=500;");
  ASSERT_TRUE(daemon.wait_until_ready()) << daemon.log();
  const std::vector<pid_t> pids = wait_for_ranks(daemon);
  ReadinessWatch watch(daemon);
  const Calls running = run_calls(daemon);
  Calls queued;
  if (point() == Point::kBusy) {
    queued = start_calls(daemon, 1, 1);
    ASSERT_TRUE(queued[0]->wait_for_state(Job::STATE_QUEUED));
  }
  lose(pids[static_cast<size_t>(rank())], loss());
  const absl::Time lost = absl::Now();
  EXPECT_EQ(watch.next(), HealthCheckResponse::NOT_SERVING);
  EXPECT_LT(absl::Now() - lost, deadline());
  for (const auto& call : running) {
    expect_worker_lost(*call, why_lost(rank(), loss()));
  }
  EXPECT_EQ(watch.next(), HealthCheckResponse::SERVING);
  expect_gone(pids);
  // What waited has not been lost.
  for (const auto& call : queued) {
    EXPECT_TRUE(call->finish().ok()) << describe(call->finish());
  }
  expect_next_group_serves(daemon, 1, kRanks);
  EXPECT_EQ(daemon.get_pipeline(kPipeline).generation(), 2);
}

INSTANTIATE_TEST_SUITE_P(
    Matrix, GroupKillTest,
    Combine(Values(Loss::kDead, Loss::kSilent),
            Values(Point::kStart, Point::kLoad, Point::kIdle,
                   Point::kRunningOnIt, Point::kRunningOnOther, Point::kBusy),
            Values(false, true)),
    [](const auto& info) {
      return absl::StrCat(
          std::get<0>(info.param) == Loss::kDead ? "Dead" : "Silent",
          std::get<2>(info.param) ? "Last" : "First",
          to_string(std::get<1>(info.param)));
    });

// A step may last longer than the heartbeat's timeout.
TEST_F(ScriptedGroupTest, ARankThatIsSlowIsNotLost) {
  Daemon& daemon = start_scripted("step_ms@0=4500");
  ASSERT_TRUE(daemon.wait_until_ready()) << daemon.log();
  for (const auto& call : start_calls(daemon, kRanks, 1)) {
    EXPECT_TRUE(call->finish().ok()) << describe(call->finish());
  }
  EXPECT_EQ(daemon.get_pipeline(kPipeline).generation(), 1);
}

TEST_F(ScriptedGroupTest, NoRankOutlivesFerryd) {
  Daemon& daemon = start_scripted("step_ms=500");
  ASSERT_TRUE(daemon.wait_until_ready()) << daemon.log();
  const std::vector<pid_t> pids = wait_for_ranks(daemon);
  const Calls running = start_calls(daemon, 1, kManySteps);
  ASSERT_TRUE(running[0]->wait_for_step(1));
  lose(pids[1], Loss::kSilent);
  daemon.process().send_signal(SIGKILL);
  EXPECT_EQ(running[0]->finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  // The closing check looks for every one.
  expect_exit(-SIGKILL);
}

}  // namespace
}  // namespace ferry
