// Ranks of one host have one copy of the weights on it, each of them with its
// own device.

#include <signal.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/eventually.h"
#include "tests/support/files.h"
#include "tests/support/generate_call.h"
#include "tests/support/host_bytes.h"
#include "tests/support/packages.h"
#include "tests/support/processes.h"

namespace ferry {
namespace {

using ::testing::SizeIs;

constexpr int kRanks = 3;
constexpr char kPipeline[] = "pipelines/shared";
// 144 MB in all.
constexpr int kBlocks = 12;
constexpr int64_t kBlockBytes = 12'000'000;

class SharedHostMemoryTest : public DaemonFixture {
 protected:
  static std::string large() {
    return make_package({"--code_only", absl::StrCat("--blocks=", kBlocks),
                         absl::StrCat("--ballast_bytes=", kBlockBytes)});
  }
  // As large, without weights.
  static std::string small() {
    return make_package({"--code_only", absl::StrCat("--blocks=", kBlocks)});
  }

  static Daemon::Options options(const std::string& package,
                                 const std::string& offload,
                                 const std::string& platform) {
    const std::string config = make_directory("config") + "/ferryd.txtpb";
    write_file(config, absl::StrCat("pipelines { name: \"shared\" path: \"",
                                    package, "\" ranks: ", kRanks,
                                    " offload { ", offload, " } }"));
    Daemon::Options options;
    options.flags = {"--config=" + config, "--platform=" + platform};
    return options;
  }

  // One picture of each rank, which are the same.
  static std::string picture(Daemon& daemon) {
    v1::GenerateRequest request = make_request(7);
    request.mutable_spec()->set_num_inference_steps(2);
    std::vector<std::unique_ptr<GenerateCall>> calls;
    for (int i = 0; i < kRanks; ++i) {
      calls.push_back(
          std::make_unique<GenerateCall>(daemon.generation(), request));
    }
    std::string first;
    for (const auto& call : calls) {
      EXPECT_TRUE(call->finish().ok()) << describe(call->finish());
      if (call->outputs().empty()) continue;
      if (first.empty()) first = call->outputs().at(0);
      EXPECT_EQ(call->outputs().at(0), first);
    }
    EXPECT_FALSE(first.empty());
    return first;
  }

  static int64_t host_bytes(const Daemon& daemon, const std::string& package) {
    int64_t sum = 0;
    for (const pid_t pid : daemon.worker_pids()) {
      sum += read_host_bytes(pid, package).sum();
    }
    return sum;
  }

  // Nobody keeps the memory but those who have mapped it.
  static void expect_no_descriptors(Daemon& daemon) {
    std::vector<pid_t> pids = daemon.worker_pids();
    EXPECT_THAT(pids, SizeIs(kRanks));
    pids.push_back(daemon.process().pid());
    for (const pid_t pid : pids) {
      for (const std::string& file : open_descriptors(pid)) {
        EXPECT_FALSE(absl::StrContains(file, "ferry-host"))
            << pid << " " << file;
      }
    }
  }

  // Host bytes of all ranks that are due to the weights, per byte of these.
  void expect_one_copy(const std::string& offload,
                       const std::string& platform) {
    int64_t others = 0;
    int64_t small_weights = 0;
    {
      Daemon daemon(options(small(), offload, platform));
      ASSERT_TRUE(daemon.wait_until_ready()) << daemon.log();
      picture(daemon);
      others = host_bytes(daemon, small());
      small_weights = weight_bytes(daemon.get_pipeline(kPipeline));
      expect_closes(daemon);
    }
    Daemon& daemon = start_ready(options(large(), offload, platform));
    picture(daemon);
    const auto weights = static_cast<double>(
        weight_bytes(daemon.get_pipeline(kPipeline)) - small_weights);
    ASSERT_GE(weights, 0.99 * kBlocks * kBlockBytes);
    const auto bytes =
        static_cast<double>(host_bytes(daemon, large()) - others);
    RecordProperty("ratio", absl::StrCat(bytes / weights));
    EXPECT_LE(bytes / weights, 1.1);
    // Else it was not measured.
    EXPECT_GE(bytes / weights, 0.9);
    expect_no_descriptors(daemon);
  }
};

TEST_F(SharedHostMemoryTest, OfRanksThatStreamForThemselves) {
  expect_one_copy("mode: \"layer\" components: \"dit\"", "simulated");
}

TEST_F(SharedHostMemoryTest, OfRanksWhoseWeightsAreOnTheirDevices) {
  expect_one_copy("mode: \"auto\"", "simulated");
}

// The files of the package are mapped.
TEST_F(SharedHostMemoryTest, OfRanksOnTheHost) {
  expect_one_copy("mode: \"none\"", "cpu");
}

TEST_F(SharedHostMemoryTest, AKilledRankLeavesNothingBehind) {
  const std::string offload = "mode: \"layer\" components: \"dit\"";
  Daemon& daemon = start_ready(options(small(), offload, "simulated"));
  const std::string expected = picture(daemon);
  const v1::Pipeline before = daemon.get_pipeline(kPipeline);
  ASSERT_THAT(before.ranks(), SizeIs(kRanks));
  // The one that wrote the weights.
  kill(static_cast<pid_t>(before.ranks(0).pid()), SIGKILL);
  ASSERT_TRUE(eventually([&] {
    const v1::Pipeline now = daemon.get_pipeline(kPipeline);
    return now.generation() > before.generation() &&
           now.state() == v1::Pipeline::STATE_READY;
  })) << daemon.log();
  for (const v1::Rank& rank : before.ranks()) {
    EXPECT_EQ(process_state(static_cast<pid_t>(rank.pid())), 0);
  }
  expect_no_descriptors(daemon);
  EXPECT_EQ(picture(daemon), expected);
}

}  // namespace
}  // namespace ferry
