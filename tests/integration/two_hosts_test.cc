// A rank on another host, as far as the kernel can tell: in a network namespace
// of its own, which a cable joins to ferryd's.

#include "tests/support/two_hosts.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/base/clock.h"
#include "tests/integration/external_ranks_fixture.h"
#include "tests/support/daemon.h"
#include "tests/support/error_details.h"
#include "tests/support/eventually.h"
#include "tests/support/generate_call.h"

namespace ferry {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// server/ipc/worker_exit.h.
constexpr int kGroupFailed = 6;
constexpr int kConnectionEnded = 7;
// ferryd's flag, and twice as long: much may run at a time.
constexpr char kHeartbeatTimeout[] = "--heartbeat_timeout=6s";
constexpr absl::Duration kDetected = absl::Seconds(12);
// The same of what TCP gives a silent connection (platform/os/tcp_socket.h).
constexpr absl::Duration kGivenUp = absl::Seconds(40);

class TwoHostsTest : public ExternalRanksFixture {
 public:
  // First of all, while the process has one thread.
  static void SetUpTestSuite() { hosts(); }

 protected:
  static const absl::StatusOr<TwoHosts>& hosts() {
    static const auto& made = *new absl::StatusOr<TwoHosts>(TwoHosts::make());
    return made;
  }

  void SetUp() override {
    if (!hosts().ok()) {
      GTEST_SKIP() << "needs two network namespaces: "
                   << hosts().status().message();
    }
    // A test that fails may leave it cut.
    ASSERT_TRUE(hosts()->mend().ok());
  }

  std::string ferryd_host() const override { return TwoHosts::kHere; }
  std::string host_of(int /*rank*/) const override { return TwoHosts::kThere; }
  std::vector<std::string> on_host_of(
      int /*rank*/, std::vector<std::string> arguments) const override {
    return hosts()->there(std::move(arguments));
  }
};

TEST_F(TwoHostsTest, GiveThePicturesOfOneRank) {
  const std::vector<std::string> expected = pictures_of_one_rank(4);
  Daemon& daemon = start_daemon(3, 1);
  const Workers workers = start_workers(daemon, 2, 3);
  ASSERT_TRUE(wait_until_ready(daemon, 1)) << daemon.log();
  const v1::Pipeline pipeline = daemon.get_pipeline(kPipeline);
  EXPECT_THAT(pipeline.offload().policy(), HasSubstr("effective_group_size 3"));
  EXPECT_THAT(pipeline.ranks(), SizeIs(3));
  EXPECT_EQ(pictures(daemon, 4), expected);
}

// Nothing tells either side that the cable is out: no end, no reset.
TEST_F(TwoHostsTest, ACutCableEndsTheGroupOnBothAndTheNextServes) {
  const std::vector<std::string> expected = pictures_of_one_rank(2);
  Daemon& daemon = start_daemon(2, 1, {kHeartbeatTimeout});
  Workers workers = start_workers(daemon, 1, 2);
  ASSERT_TRUE(wait_until_ready(daemon, 1)) << daemon.log();
  const auto calls = run_endless(daemon, 2);

  const Clock& clock = Clock::real();
  ASSERT_TRUE(hosts()->cut().ok());
  const absl::Duration cut = clock.monotonic();
  for (const auto& call : calls) expect_worker_lost(*call);
  EXPECT_LT(clock.monotonic() - cut, kDetected);
  EXPECT_THAT(daemon.log(), HasSubstr("rank 1 did not answer for 6s"));
  const auto exit = workers[0]->wait(kGivenUp - (clock.monotonic() - cut));
  ASSERT_TRUE(exit.has_value()) << workers[0]->read_stderr();
  EXPECT_EQ(exit->code, kConnectionEnded) << workers[0]->read_stderr();

  // One that finds no ferryd waits for the cable.
  workers = start_workers(daemon, 1, 2);
  ASSERT_TRUE(eventually([&] {
    return absl::StrContains(workers[0]->read_stderr(), "waiting for ferryd");
  })) << workers[0]->read_stderr();
  ASSERT_TRUE(hosts()->mend().ok());
  ASSERT_TRUE(wait_until_ready(daemon, 2)) << daemon.log();
  EXPECT_EQ(daemon.get_pipeline(kPipeline).generation(), 2);
  EXPECT_EQ(pictures(daemon, 2), expected);
}

// The group is given up, its worker there does not know yet, and could speak
// again.
TEST_F(TwoHostsTest, AMendedCableBringsNoOldWorkerBack) {
  const std::vector<std::string> expected = pictures_of_one_rank(2);
  Daemon& daemon = start_daemon(2, 1, {kHeartbeatTimeout});
  const Workers old = start_workers(daemon, 1, 2);
  ASSERT_TRUE(wait_until_ready(daemon, 1)) << daemon.log();
  const auto calls = run_endless(daemon, 2);

  ASSERT_TRUE(hosts()->cut().ok());
  for (const auto& call : calls) expect_worker_lost(*call);
  ASSERT_TRUE(hosts()->mend().ok());
  const Workers workers = start_workers(daemon, 1, 2);
  ASSERT_TRUE(wait_until_ready(daemon, 2)) << daemon.log();
  EXPECT_EQ(daemon.get_pipeline(kPipeline).generation(), 2);
  EXPECT_EQ(pictures(daemon, 2), expected);
  const auto exit = old[0]->wait(kGivenUp);
  ASSERT_TRUE(exit.has_value()) << old[0]->read_stderr();
  EXPECT_THAT(exit->code, AnyOf(kGroupFailed, kConnectionEnded))
      << old[0]->read_stderr();
}

// What it has swallowed is sent again.
TEST_F(TwoHostsTest, ACableThatIsOutForAMomentEndsNothing) {
  const std::vector<std::string> expected = pictures_of_one_rank(2);
  Daemon& daemon = start_daemon(2, 1, {kHeartbeatTimeout});
  const Workers workers = start_workers(daemon, 1, 2);
  ASSERT_TRUE(wait_until_ready(daemon, 1)) << daemon.log();
  std::vector<std::unique_ptr<GenerateCall>> calls;
  for (int seed = 1; seed <= 2; ++seed) {
    calls.push_back(std::make_unique<GenerateCall>(daemon.generation(),
                                                   make_request(seed)));
  }
  for (const auto& call : calls) EXPECT_TRUE(call->wait_for_step(1));
  ASSERT_TRUE(hosts()->cut().ok());
  ASSERT_TRUE(hosts()->mend().ok());
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_TRUE(calls[i]->finish().ok()) << describe(calls[i]->finish());
    EXPECT_EQ(calls[i]->outputs().at(0), expected[i]);
  }
  EXPECT_EQ(daemon.get_pipeline(kPipeline).generation(), 1);
}

}  // namespace
}  // namespace ferry
