#include "tests/fault/group_fixture.h"

#include <signal.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/error_details.h"
#include "tests/support/processes.h"

namespace ferry {

using grpc::health::v1::HealthCheckResponse;
using ::testing::SizeIs;

std::vector<std::string> GroupFixture::group_flags(int ranks) {
  return {absl::StrCat("--ranks=", ranks), "--heartbeat_interval=100ms",
          absl::StrCat("--heartbeat_timeout=",
                       absl::FormatDuration(heartbeat_timeout())),
          "--step_timeout=5m"};
}

pid_t GroupFixture::find_rank(const Daemon& daemon, int rank,
                              int64_t generation) {
  for (const pid_t pid : daemon.worker_pids()) {
    const std::vector<std::string> line = command_line(pid);
    const auto has = [&](const std::string& argument) {
      return std::find(line.begin(), line.end(), argument) != line.end();
    };
    if (has(absl::StrCat("--rank=", rank)) &&
        has(absl::StrCat("--generation=", generation))) {
      return pid;
    }
  }
  return 0;
}

void GroupFixture::lose(pid_t pid, Loss loss) {
  ASSERT_NE(pid, 0);
  kill(pid, loss == Loss::kDead ? SIGKILL : SIGSTOP);
}

std::string GroupFixture::why_lost(int rank, Loss loss) {
  return absl::StrCat("rank ", rank,
                      loss == Loss::kDead
                          ? " killed by signal 9"
                          : " did not answer for 3s (heartbeat_timeout)");
}

v1::GenerateRequest GroupFixture::request_of_steps(int steps) {
  v1::GenerateRequest request = make_request();
  request.mutable_spec()->set_num_inference_steps(steps);
  return request;
}

GroupFixture::Calls GroupFixture::start_calls(Daemon& daemon, int count,
                                              int steps) {
  Calls calls;
  for (int i = 0; i < count; ++i) {
    calls.push_back(std::make_unique<GenerateCall>(daemon.generation(),
                                                   request_of_steps(steps)));
  }
  return calls;
}

void GroupFixture::expect_next_group_serves(Daemon& daemon, int64_t generation,
                                            int ranks) {
  ASSERT_TRUE(eventually([&] {
    const v1::Pipeline pipeline = daemon.get_pipeline(kPipeline);
    return pipeline.generation() > generation &&
           pipeline.state() == v1::Pipeline::STATE_READY;
  })) << daemon.log();
  const v1::Pipeline pipeline = daemon.get_pipeline(kPipeline);
  ASSERT_THAT(pipeline.ranks(), SizeIs(ranks));
  EXPECT_THAT(daemon.worker_pids(), SizeIs(ranks));
  for (const v1::Rank& rank : pipeline.ranks()) {
    EXPECT_EQ(find_rank(daemon, rank.index(), pipeline.generation()),
              rank.pid());
  }
  EXPECT_TRUE(
      daemon.wait_for_health("readiness", HealthCheckResponse::SERVING));
  for (const auto& call : start_calls(daemon, ranks, 2)) {
    EXPECT_TRUE(call->finish().ok()) << describe(call->finish());
  }
}

}  // namespace ferry
