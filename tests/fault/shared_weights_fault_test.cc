// Ranks that share weights, by gathering them or in the memory of their host,
// lose one of them while a rank stands at a point between joining the group and
// giving away a picture: in a vote, in a gather, beside them.

#include <string>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fault/expectations.h"
#include "tests/fault/faults.h"
#include "tests/fault/group_fixture.h"
#include "tests/fault/sharing_options.h"
#include "tests/support/error_details.h"
#include "tests/support/processes.h"

namespace ferry {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::Combine;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Values;

class SharedWeightsFixture : public GroupFixture {
 protected:
  static constexpr int kRanks = 2;

  // How they share weights.
  virtual std::string transfer() const { return "allgather"; }

  virtual Daemon::Options rank_options() const {
    return sharing_options(faults_, transfer());
  }

  Daemon::Options options() const {
    Daemon::Options options = rank_options();
    for (const std::string& flag : group_flags(kRanks)) {
      options.flags.push_back(flag);
    }
    return options;
  }

  Faults faults_;
};

// Loss, the fault, whether it is the last rank and not the first.
class SharedWeightsFaultTest : public SharedWeightsFixture,
                               public ::testing::WithParamInterface<
                                   std::tuple<Loss, std::string, bool>> {
 protected:
  static Loss loss() { return std::get<0>(GetParam()); }
  static std::string fault() { return std::get<1>(GetParam()); }
  static int rank() { return std::get<2>(GetParam()) ? kRanks - 1 : 0; }
};

class SharedWeightsLoadFaultTest : public SharedWeightsFaultTest {
 protected:
  // `hit` is the fault's.
  void expect_next_group(int hit) {
    faults_.arm(fault());
    Daemon& daemon = start(options());
    ASSERT_TRUE(daemon.wait_until_listening()) << daemon.log();
    ASSERT_TRUE(faults_.wait_for_hit(hit));
    lose(find_rank(daemon, rank(), 1), loss());
    ASSERT_TRUE(eventually([&] {
      return daemon.get_pipeline(kPipeline).generation() > 1;
    })) << daemon.log();
    faults_.disarm();
    expect_next_group_serves(daemon, 1, kRanks);
  }
};

class SharedImagesLoadFaultTest : public SharedWeightsLoadFaultTest {
 protected:
  std::string transfer() const override { return "rank-local"; }
};

class ChoiceLoadFaultTest : public SharedWeightsLoadFaultTest {
 protected:
  Daemon::Options rank_options() const override {
    return choosing_options(faults_);
  }
};

TEST_P(SharedWeightsFaultTest, NothingStaysAndTheNextGroupServes) {
  Daemon& daemon = start_ready(options());
  EXPECT_THAT(daemon.get_pipeline(kPipeline).offload().policy(),
              HasSubstr("effective_group_size 2"));
  faults_.arm(fault());
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

TEST_P(SharedWeightsLoadFaultTest, TheNextGroupServes) { expect_next_group(1); }

TEST_P(SharedImagesLoadFaultTest, TheNextGroupServes) {
  expect_next_group(fault().back() - '0');
}

TEST_P(ChoiceLoadFaultTest, TheNextGroupServes) {
  int hit = 0;
  ASSERT_TRUE(absl::SimpleAtoi(fault().substr(fault().find(':') + 1), &hit));
  expect_next_group(hit);
}

std::string name_of(
    const testing::TestParamInfo<SharedWeightsFaultTest::ParamType>& info) {
  std::string name =
      absl::StrCat(std::get<0>(info.param) == Loss::kDead ? "Dead_" : "Silent_",
                   std::get<2>(info.param) ? "Last_" : "First_",
                   std::get<1>(info.param).substr(5));
  for (char& letter : name) {
    if (letter == ':') letter = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Matrix, SharedWeightsFaultTest,
                         Combine(Values(Loss::kDead, Loss::kSilent),
                                 Values("hang@pass_vote", "hang@pass_gather",
                                        "hang@pass_gather:4",
                                        "hang@denoise_step", "hang@decode"),
                                 Values(false, true)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Matrix, SharedWeightsLoadFaultTest,
                         Combine(Values(Loss::kDead, Loss::kSilent),
                                 Values("hang@join_group", "hang@start_vote",
                                        "hang@pass_gather"),
                                 Values(false, true)),
                         name_of);

// Both ranks vote before the images are written, before the second one maps
// them, and after that.
INSTANTIATE_TEST_SUITE_P(Matrix, SharedImagesLoadFaultTest,
                         Combine(Values(Loss::kDead, Loss::kSilent),
                                 Values("hang@start_vote:1",
                                        "hang@start_vote:3",
                                        "hang@start_vote:5"),
                                 Values(false, true)),
                         name_of);

// Both ranks run the pipeline on the host, to wake up, and to be measured; and
// vote four times to measure transfers, three times to place weights, and then
// on what they ran.
INSTANTIATE_TEST_SUITE_P(Matrix, ChoiceLoadFaultTest,
                         Combine(Values(Loss::kDead, Loss::kSilent),
                                 Values("hang@warm_up:5", "hang@start_vote:15"),
                                 Values(false, true)),
                         name_of);

// The rank that comes to a step third fails: both have made their smallest
// requests on the host by then, and make one together.
constexpr char kFailsGathered[] = "oom@denoise_step:3";

class FirstPassesFaultTest : public SharedWeightsFixture {};

TEST_F(FirstPassesFaultTest, AreTheErrorOfAllWhereItWasAskedToGather) {
  faults_.arm(kFailsGathered);
  Daemon& daemon = start(options());
  const auto exit = daemon.process().wait(kPatience);
  ASSERT_TRUE(exit.has_value()) << daemon.log();
  EXPECT_EQ(exit->code, 2);
  EXPECT_THAT(daemon.log(), ContainsRegex("rank [01]: .*out of device memory"));
  EXPECT_EQ(faults_.hits(), 4) << "it was tried again";
  expect_exit(2);
}

class MeasuredPassesFaultTest : public FirstPassesFaultTest {
 protected:
  Daemon::Options rank_options() const override {
    return choosing_options(faults_);
  }
};

TEST_F(MeasuredPassesFaultTest, AreNotWorthItWhereRanksChoose) {
  faults_.arm(kFailsGathered);
  Daemon& daemon = start_ready(options());
  const v1::Pipeline pipeline = daemon.get_pipeline(kPipeline);
  EXPECT_EQ(pipeline.generation(), 1);
  EXPECT_EQ(pipeline.offload().strategy(), "distributed_layer_wise");
  EXPECT_THAT(pipeline.offload().reason(),
              ContainsRegex("each rank copies for itself: .* and failed: rank "
                            "[01]: .*out of device memory"));
  for (const auto& call : start_calls(daemon, kRanks, 3)) {
    EXPECT_TRUE(call->finish().ok()) << describe(call->finish());
  }
}

class SilentFailureTest : public SharedWeightsFixture,
                          public ::testing::WithParamInterface<std::string> {};

// Of the last steps, on whichever rank it is.
TEST_P(SilentFailureTest, EndsTheGroupAndMakesNoPicture) {
  Daemon& daemon = start_ready(options());
  faults_.arm(absl::StrCat("oom@", GetParam(), ":1000000"));
  GenerateCall good(daemon.generation(), request_of_steps(4));
  ASSERT_TRUE(good.finish().ok()) << describe(good.finish());
  const int hits = faults_.hits();
  ASSERT_GT(hits, 8);
  for (const int lost : {hits - 5, hits - 1, hits}) {
    SCOPED_TRACE(absl::StrCat(GetParam(), " ", lost, " of ", hits));
    const int64_t generation = daemon.get_pipeline(kPipeline).generation();
    faults_.arm(absl::StrCat("oom@", GetParam(), ":", lost));
    GenerateCall call(daemon.generation(), request_of_steps(4));
    expect_worker_lost(call, "exited with code ");
    EXPECT_TRUE(call.outputs().empty());
    faults_.disarm();
    expect_next_group_serves(daemon, generation, kRanks);
  }
}

INSTANTIATE_TEST_SUITE_P(, SilentFailureTest,
                         Values("device_gather", "silent_copy"));

class SlowRankTest : public SharedWeightsFixture,
                     public ::testing::WithParamInterface<std::string> {};

// Four times as long as a rank may be silent: it still answers heartbeats, and
// those that wait for it do so as long as a step may last.
TEST_P(SlowRankTest, IsNotLost) {
  Daemon& daemon = start_ready(options());
  GenerateCall before(daemon.generation(), request_of_steps(3));
  ASSERT_TRUE(before.finish().ok()) << describe(before.finish());
  faults_.arm(absl::StrCat("slow@", GetParam(), ":2:12000"));
  for (const auto& call : start_calls(daemon, kRanks, 3)) {
    EXPECT_TRUE(call->finish().ok()) << describe(call->finish());
    ASSERT_EQ(call->job().outputs_size(), 1);
    EXPECT_EQ(call->job().outputs(0).sha256(),
              before.job().outputs(0).sha256());
  }
  EXPECT_TRUE(faults_.wait_for_hit(2));
  EXPECT_EQ(daemon.get_pipeline(kPipeline).generation(), 1);
}

INSTANTIATE_TEST_SUITE_P(, SlowRankTest,
                         Values("pass_vote", "pass_gather", "denoise_step"));

}  // namespace
}  // namespace ferry
