// The same as group_kill_test.cc of workers with LibTorch: a group loses a rank
// while one of its ranks stands at a point of a generation.

#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/fault/expectations.h"
#include "tests/fault/faults.h"
#include "tests/fault/group_fixture.h"
#include "tests/support/packages.h"
#include "tests/support/processes.h"

namespace ferry {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::Combine;
using ::testing::Values;

// Loss, point, whether it is the last rank and not the first. The rank that
// stands at the point is the one that is lost or the other.
class GroupFaultTest : public GroupFixture,
                       public ::testing::WithParamInterface<
                           std::tuple<Loss, std::string, bool>> {
 protected:
  static constexpr int kRanks = 2;

  static Loss loss() { return std::get<0>(GetParam()); }
  static std::string point() { return std::get<1>(GetParam()); }
  static int rank() { return std::get<2>(GetParam()) ? kRanks - 1 : 0; }

  Daemon& start_torch() {
    Daemon::Options options = faults_.daemon_options("group", make_package());
    for (const std::string& flag : group_flags(kRanks)) {
      options.flags.push_back(flag);
    }
    return start_ready(options);
  }

  Faults faults_;
};

TEST_P(GroupFaultTest, NothingStaysAndTheNextGroupServes) {
  Daemon& daemon = start_torch();
  faults_.arm("hang@" + point());
  ReadinessWatch watch(daemon);
  GenerateCall call(daemon.generation(), request_of_steps(4));
  ASSERT_TRUE(faults_.wait_for_hit());
  const v1::Pipeline before = daemon.get_pipeline(kPipeline);
  lose(find_rank(daemon, rank(), before.generation()), loss());
  expect_worker_lost(call, why_lost(rank(), loss()));
  EXPECT_EQ(watch.next(), HealthCheckResponse::NOT_SERVING);
  faults_.disarm();
  expect_next_group_serves(daemon, before.generation(), kRanks);
  for (const v1::Rank& other : before.ranks()) {
    EXPECT_EQ(process_state(static_cast<pid_t>(other.pid())), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Matrix, GroupFaultTest,
    Combine(Values(Loss::kDead, Loss::kSilent),
            Values("encode_prompt", "denoise_step", "decode", "send_output"),
            Values(false, true)),
    [](const auto& info) {
      return absl::StrCat(
          std::get<0>(info.param) == Loss::kDead ? "Dead_" : "Silent_",
          std::get<2>(info.param) ? "Last_" : "First_",
          std::get<1>(info.param));
    });

}  // namespace
}  // namespace ferry
