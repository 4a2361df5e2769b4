// Ranks that others start, as on other hosts: each at an address of its own.

#include <signal.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/child_process.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/eventually.h"
#include "tests/support/files.h"
#include "tests/support/generate_call.h"
#include "tests/support/packages.h"
#include "tests/support/processes.h"

namespace ferry {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kPipeline[] = "pipelines/slow";
constexpr char kFerrydHost[] = "127.0.0.2";
constexpr int kConnectionEnded = 7;
constexpr int kNotLetIn = 8;

class ExternalRanksTest : public DaemonFixture {
 protected:
  using Workers = std::vector<std::unique_ptr<ChildProcess>>;

  ExternalRanksTest()
      : token_file_(absl::StrCat(make_directory("token"), "/token")) {
    write_file(token_file_, "0123456789abcdef0123456789abcdef\n");
  }

  // A daemon of so many ranks that share one copy of the weights. It listens,
  // and waits for the last ones.
  Daemon& start_daemon(int ranks, int external_ranks) {
    const std::string config = make_directory("config") + "/ferryd.txtpb";
    write_file(
        config,
        absl::StrCat("pipelines { name: \"slow\" path: \"", slow_package(),
                     "\" ranks: ", ranks, " external_ranks: ", external_ranks,
                     " offload { mode: \"layer\" components: \"dit\" "
                     "layer_options { component: \"dit\" "
                     "weight_transfer: \"allgather\" } } }"));
    Daemon& daemon =
        start({{},
               {"--config=" + config, "--platform=simulated",
                "--simulated_check", "--heartbeat_interval=100ms",
                absl::StrCat("--worker_address=", kFerrydHost, ":0"),
                "--worker_token_file=" + token_file_}});
    EXPECT_TRUE(daemon.wait_until_listening()) << daemon.log();
    return daemon;
  }

  // Rank and world size are told by the environment.
  std::unique_ptr<ChildProcess> start_worker(
      const Daemon& daemon, int rank, int ranks,
      const std::string& token_file) const {
    ChildProcess::Options options;
    options.arguments = {
        product_program("server/worker/ferry_worker"),
        "--rendezvous=" + daemon.worker_address(), "--pipeline=slow",
        absl::StrCat("--bind_address=127.0.0.", kFirstHost + rank),
        "--worker_token_file=" + token_file};
    options.environment = {absl::StrCat("LWS_WORKER_INDEX=", rank),
                           absl::StrCat("LWS_GROUP_SIZE=", ranks)};
    return std::make_unique<ChildProcess>(options);
  }

  Workers start_workers(const Daemon& daemon, int first, int ranks) const {
    Workers workers;
    for (int rank = first; rank < ranks; ++rank) {
      workers.push_back(start_worker(daemon, rank, ranks, token_file_));
    }
    return workers;
  }

  // Blocks until that many have come in, and then until the group is ready:
  // programs start one after the other here, and each takes its time.
  static bool wait_until_ready(Daemon& daemon, size_t external_ranks) {
    const bool came = eventually([&] {
      const std::vector<std::string> parts =
          absl::StrSplit(daemon.log(), "a worker has come in");
      return parts.size() > external_ranks;
    });
    return came && daemon.wait_until_ready();
  }

  // Pictures of the seeds 1 to `count`, asked for at once.
  static std::vector<std::string> pictures(Daemon& daemon, int count) {
    std::vector<std::unique_ptr<GenerateCall>> calls;
    for (int seed = 1; seed <= count; ++seed) {
      calls.push_back(std::make_unique<GenerateCall>(daemon.generation(),
                                                     make_request(seed)));
    }
    std::vector<std::string> result;
    for (const auto& call : calls) {
      EXPECT_TRUE(call->finish().ok()) << describe(call->finish());
      result.push_back(call->outputs().empty() ? "" : call->outputs().at(0));
    }
    return result;
  }

  static std::vector<std::string> pictures_of_one_rank(int count) {
    Daemon daemon({{{"slow", slow_package()}}, {"--platform=cpu"}});
    EXPECT_TRUE(daemon.wait_until_ready()) << daemon.log();
    std::vector<std::string> result = pictures(daemon, count);
    expect_closes(daemon);
    return result;
  }

  // Addresses at which the process listens over TCP, in the form of
  // /proc/net/tcp: hexadecimal, the last byte first, without the port.
  static std::vector<std::string> listening_at(pid_t pid) {
    const std::vector<std::string> descriptors = open_descriptors(pid);
    const std::set<std::string> own(descriptors.begin(), descriptors.end());
    std::vector<std::string> addresses;
    std::ifstream table(absl::StrCat("/proc/", pid, "/net/tcp"));
    for (std::string line; std::getline(table, line);) {
      std::istringstream words(line);
      const std::vector<std::string> fields(
          std::istream_iterator<std::string>(words), {});
      constexpr size_t kInode = 9;
      constexpr char kListen[] = "0A";
      if (fields.size() > kInode && fields[3] == kListen &&
          own.count(absl::StrCat("socket:[", fields[kInode], "]")) > 0) {
        addresses.push_back(fields[1].substr(0, fields[1].find(':')));
      }
    }
    return addresses;
  }

  // Rank r listens at 127.0.0.(kFirstHost + r).
  static constexpr int kFirstHost = 10;

  const std::string token_file_;
};

TEST_F(ExternalRanksTest, GiveThePicturesOfOneRank) {
  const std::vector<std::string> expected = pictures_of_one_rank(4);
  Daemon& daemon = start_daemon(3, 2);
  const Workers workers = start_workers(daemon, 1, 3);
  ASSERT_TRUE(wait_until_ready(daemon, 2)) << daemon.log();
  const v1::Pipeline pipeline = daemon.get_pipeline(kPipeline);
  EXPECT_THAT(pipeline.offload().policy(), HasSubstr("effective_group_size 3"));
  ASSERT_THAT(pipeline.ranks(), SizeIs(3));
  EXPECT_EQ(pipeline.ranks(1).pid(), workers[0]->pid());
  EXPECT_EQ(pipeline.ranks(2).pid(), workers[1]->pid());
  EXPECT_EQ(pictures(daemon, 4), expected);
  // The store; what listens for others does so at its rank's address only.
  EXPECT_THAT(listening_at(static_cast<pid_t>(pipeline.ranks(0).pid())),
              AllOf(Not(IsEmpty()), Each("0200007F")));
  EXPECT_THAT(listening_at(workers[0]->pid()), Each("0B00007F"));
  EXPECT_THAT(listening_at(daemon.process().pid()), Contains("0200007F"));
}

TEST_F(ExternalRanksTest, OneThatIsKilledEndsTheGroupAndTheNextServes) {
  const std::vector<std::string> expected = pictures_of_one_rank(2);
  Daemon& daemon = start_daemon(2, 1);
  Workers workers = start_workers(daemon, 1, 2);
  ASSERT_TRUE(wait_until_ready(daemon, 1)) << daemon.log();
  v1::GenerateRequest endless = make_request();
  endless.mutable_spec()->set_num_inference_steps(200);
  std::vector<std::unique_ptr<GenerateCall>> calls;
  for (int i = 0; i < 2; ++i) {
    calls.push_back(
        std::make_unique<GenerateCall>(daemon.generation(), endless));
  }
  for (const auto& call : calls) EXPECT_TRUE(call->wait_for_step(1));
  workers[0]->send_signal(SIGKILL);
  for (const auto& call : calls) {
    EXPECT_EQ(call->finish().error_code(), grpc::StatusCode::UNAVAILABLE)
        << describe(call->finish());
    EXPECT_EQ(parse_details(call->finish()).reason, "WORKER_LOST");
  }
  workers = start_workers(daemon, 1, 2);
  ASSERT_TRUE(wait_until_ready(daemon, 2)) << daemon.log();
  EXPECT_EQ(daemon.get_pipeline(kPipeline).generation(), 2);
  EXPECT_EQ(pictures(daemon, 2), expected);
  // And the other way round.
  kill(static_cast<pid_t>(daemon.get_pipeline(kPipeline).ranks(0).pid()),
       SIGKILL);
  const auto exit = workers[0]->wait(kPatience);
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, kConnectionEnded) << workers[0]->read_stderr();
}

TEST_F(ExternalRanksTest, WithAnotherTokenTheyAreNotLetIn) {
  Daemon& daemon = start_daemon(2, 1);
  const std::string other = absl::StrCat(make_directory("other"), "/token");
  write_file(other, "fedcba9876543210fedcba9876543210");
  const auto worker = start_worker(daemon, 1, 2, other);
  const auto exit = worker->wait(kPatience);
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, kNotLetIn);
  EXPECT_THAT(worker->read_stderr(), HasSubstr("refuses this worker"));
  EXPECT_TRUE(eventually(
      [&] { return absl::StrContains(daemon.log(), "a worker was refused"); }));
  EXPECT_THAT(daemon.log(), Not(HasSubstr("0123456789abcdef")));
  EXPECT_THAT(daemon.log(), Not(HasSubstr("fedcba9876543210")));
}

}  // namespace
}  // namespace ferry
