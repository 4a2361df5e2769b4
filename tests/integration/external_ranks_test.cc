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
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/external_ranks_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/daemon.h"
#include "tests/support/eventually.h"
#include "tests/support/files.h"
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

constexpr int kConnectionEnded = 7;
constexpr int kNotLetIn = 8;

class ExternalRanksTest : public ExternalRanksFixture {
 protected:
  std::string ferryd_host() const override { return "127.0.0.2"; }
  std::string host_of(int rank) const override {
    return absl::StrCat("127.0.0.", 10 + rank);
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
  const auto calls = run_endless(daemon, 2);
  workers[0]->send_signal(SIGKILL);
  for (const auto& call : calls) expect_worker_lost(*call);
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
  EXPECT_TRUE(eventually([&] {
    return absl::StrContains(daemon.log(), "a worker was not let in");
  }));
  EXPECT_THAT(daemon.log(), Not(HasSubstr("0123456789abcdef")));
  EXPECT_THAT(daemon.log(), Not(HasSubstr("fedcba9876543210")));
}

}  // namespace
}  // namespace ferry
