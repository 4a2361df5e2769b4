// Pipelines of several ranks: as many requests at once, each with the same
// picture as one rank makes.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/child_process.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/files.h"
#include "tests/support/generate_call.h"
#include "tests/support/job_calls.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using v1::Job;

constexpr char kPipeline[] = "pipelines/slow";

class RanksTest : public DaemonFixture {
 protected:
  using Calls = std::vector<std::unique_ptr<GenerateCall>>;

  static v1::GenerateRequest endless_request(int priority = 0) {
    v1::GenerateRequest request = make_request();
    request.mutable_spec()->set_num_inference_steps(200);
    request.set_priority(priority);
    return request;
  }

  static std::unique_ptr<GenerateCall> call(
      Daemon& daemon, const v1::GenerateRequest& request) {
    return std::make_unique<GenerateCall>(daemon.generation(), request);
  }

  // Requests that run at the same time, on all ranks but the waiting ones.
  static Calls run_endless(Daemon& daemon, int count) {
    Calls calls;
    for (int i = 0; i < count; ++i) {
      calls.push_back(call(daemon, endless_request()));
    }
    for (const auto& running : calls) EXPECT_TRUE(running->wait_for_step(1));
    return calls;
  }

  static std::vector<std::string> rank_jobs(Daemon& daemon) {
    const v1::Pipeline pipeline = daemon.get_pipeline(kPipeline);
    std::vector<std::string> jobs;
    for (const v1::Rank& rank : pipeline.ranks()) jobs.push_back(rank.job());
    return jobs;
  }

  static Job::State state_of(Daemon& daemon, GenerateCall& other) {
    return get_job(daemon.generation(), other.job().name())
        .response.job()
        .state();
  }

  // Pictures of the seeds 1 to `count`, asked for at once.
  static std::vector<std::string> pictures(Daemon& daemon, int count) {
    Calls calls;
    for (int seed = 1; seed <= count; ++seed) {
      calls.push_back(call(daemon, make_request(seed)));
    }
    std::vector<std::string> result;
    for (const auto& running : calls) {
      EXPECT_TRUE(running->finish().ok()) << describe(running->finish());
      result.push_back(running->outputs().empty() ? ""
                                                  : running->outputs().at(0));
    }
    return result;
  }

  // What a daemon of one rank makes on the CPU.
  static std::vector<std::string> pictures_of_one_rank(
      int count, const std::string& package = slow_package()) {
    Daemon daemon({{{"slow", package}}, {"--platform=cpu"}});
    EXPECT_TRUE(daemon.wait_until_ready()) << daemon.log();
    std::vector<std::string> result = pictures(daemon, count);
    expect_closes(daemon);
    return result;
  }

  static std::string write_config(const std::string& pipeline,
                                  const std::string& package = slow_package()) {
    const std::string path = make_directory("config") + "/ferryd.txtpb";
    write_file(path, absl::StrCat("pipelines { name: \"slow\" path: \"",
                                  package, "\" ", pipeline, " }"));
    return path;
  }

  // Three ranks whose devices hold two thirds of their weights, and copy all in
  // a fifth of a second. They make the same pictures as one that copies
  // nothing.
  void expect_choice(int block_ms, const std::string& reason,
                     bool loads_again) {
    const std::string package =
        make_package({"--blocks=8", "--ballast_bytes=100000",
                      absl::StrCat("--block_ms=", block_ms)});
    Daemon& daemon = start_ready(
        {{},
         {"--config=" + write_config("ranks: 3", package),
          "--platform=simulated", "--simulated_check",
          "--simulated_device_memory=720000", "--simulated_h2d_gbps=0.005"}});
    EXPECT_EQ(pictures(daemon, 3), pictures_of_one_rank(3, package));
    const v1::OffloadReport report = daemon.get_pipeline(kPipeline).offload();
    EXPECT_EQ(report.strategy(), "distributed_layer_wise");
    EXPECT_GT(report.streamed_bytes(), 0);
    EXPECT_THAT(report.reason(),
                AllOf(HasSubstr(reason), HasSubstr("; to run its 8 blocks")));
    EXPECT_EQ(absl::StrContains(daemon.log(), "loaded again"), loads_again);
  }
};

TEST_F(RanksTest, RunAsManyRequestsAtOnce) {
  Daemon& daemon = start_ready({{{"slow", slow_package()}}, {"--ranks=3"}});
  const v1::Pipeline pipeline = daemon.get_pipeline(kPipeline);
  ASSERT_THAT(pipeline.ranks(), SizeIs(3));
  std::set<int64_t> pids;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(pipeline.ranks(i).index(), i);
    EXPECT_EQ(pipeline.ranks(i).device(), "cpu");
    EXPECT_EQ(pipeline.ranks(i).job(), "");
    pids.insert(pipeline.ranks(i).pid());
  }
  EXPECT_THAT(pids, SizeIs(3));
  EXPECT_EQ(pipeline.offload().group_size(), 3);

  Calls running = run_endless(daemon, 3);
  for (const auto& each : running) {
    EXPECT_THAT(rank_jobs(daemon), Contains(each->job().name()));
  }
  const auto waiting = call(daemon, endless_request());
  ASSERT_TRUE(waiting->wait_for_state(Job::STATE_QUEUED));
  const std::vector<std::string> before = rank_jobs(daemon);
  running[1]->cancel();
  ASSERT_TRUE(waiting->wait_for_step(1));
  // On the rank that has become free.
  const std::vector<std::string> after = rank_jobs(daemon);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(after[i], before[i] == running[1]->job().name()
                            ? waiting->job().name()
                            : before[i]);
  }
}

TEST_F(RanksTest, PrioritiesHoldOverAllRanks) {
  Daemon& daemon = start_ready({{{"slow", slow_package()}}, {"--ranks=2"}});
  Calls running = run_endless(daemon, 2);
  const auto low = call(daemon, endless_request(0));
  ASSERT_TRUE(low->wait_for_state(Job::STATE_QUEUED));
  const auto high = call(daemon, endless_request(9));
  ASSERT_TRUE(high->wait_for_state(Job::STATE_QUEUED));
  running[0]->cancel();
  ASSERT_TRUE(high->wait_for_step(1));
  EXPECT_EQ(state_of(daemon, *low), Job::STATE_QUEUED);
  running[1]->cancel();
  EXPECT_TRUE(low->wait_for_step(1));
  EXPECT_EQ(state_of(daemon, *high), Job::STATE_RUNNING);
}

TEST_F(RanksTest, EachGivesThePictureOfOneRank) {
  const std::vector<std::string> expected = pictures_of_one_rank(4);
  EXPECT_THAT(std::set<std::string>(expected.begin(), expected.end()),
              SizeIs(4));
  Daemon& daemon = start_ready(
      {{{"slow", slow_package()}}, {"--platform=cpu", "--ranks=2"}});
  EXPECT_EQ(pictures(daemon, 4), expected);
}

// Every rank has a device, and streams blocks for itself.
TEST_F(RanksTest, OffloadByThemselves) {
  const std::vector<std::string> expected = pictures_of_one_rank(4);
  const std::string config =
      write_config("ranks: 2 offload { mode: \"layer\" components: \"dit\" }");
  Daemon& daemon = start_ready(
      {{},
       {"--config=" + config, "--platform=simulated", "--simulated_check"}});
  const v1::OffloadReport before = daemon.get_pipeline(kPipeline).offload();
  EXPECT_EQ(before.strategy(), "layer_wise");
  EXPECT_EQ(before.group_size(), 2);
  EXPECT_THAT(before.policy(), HasSubstr("effective_group_size 1"));
  EXPECT_EQ(pictures(daemon, 4), expected);
  const v1::OffloadReport after = daemon.get_pipeline(kPipeline).offload();
  // What both did: at least a pass of every step of every request.
  EXPECT_GE(after.total_h2d_bytes(),
            before.total_h2d_bytes() + 4 * 4 * after.streamed_bytes());
  EXPECT_EQ(after.host_bytes(), before.host_bytes());
}

// What one request writes or draws is no other one's, whichever rank it came
// to.
TEST_F(RanksTest, EqualRequestsGiveEqualPictures) {
  const std::string gathers =
      " layer_options { component: \"dit\" weight_transfer: \"allgather\" }";
  for (const char* state : {"buffer", "list", "dropout"}) {
    SCOPED_TRACE(state);
    const std::string package = make_package({absl::StrCat("--state=", state)});
    const std::vector<std::string> expected = pictures_of_one_rank(3, package);
    for (const std::string& transfer : {std::string(), gathers}) {
      const std::string config = write_config(
          absl::StrCat("ranks: 2 offload { mode: \"layer\" components: \"dit\"",
                       transfer, " }"),
          package);
      Daemon daemon({{},
                     {"--config=" + config, "--platform=simulated",
                      "--simulated_check"}});
      ASSERT_TRUE(daemon.wait_until_ready()) << daemon.log();
      for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(pictures(daemon, 3), expected);
      }
      expect_closes(daemon);
    }
  }
}

// Each rank holds a part of the transformer, and they gather its blocks.
TEST_F(RanksTest, ShareOneCopyOfTheWeights) {
  const std::vector<std::string> expected = pictures_of_one_rank(6);
  const std::string config = write_config(
      "ranks: 3 offload { mode: \"layer\" components: \"dit\" layer_options { "
      "component: \"dit\" weight_transfer: \"allgather\" } }");
  Daemon& daemon = start_ready(
      {{},
       {"--config=" + config, "--platform=simulated", "--simulated_check"}});
  EXPECT_EQ(pictures(daemon, 6), expected);
  const v1::OffloadReport report = daemon.get_pipeline(kPipeline).offload();
  EXPECT_EQ(report.strategy(), "distributed_layer_wise");
  EXPECT_THAT(report.policy(), HasSubstr("effective_group_size 3"));
  EXPECT_GT(report.total_h2d_bytes(), 0);
}

// The slowest rank paces all, so those who are alike run together.
TEST_F(RanksTest, ThatGatherTakeWhatIsLikeTheLastOne) {
  const std::string config = write_config(
      "ranks: 2 offload { mode: \"layer\" components: \"dit\" layer_options { "
      "component: \"dit\" weight_transfer: \"allgather\" } }");
  Daemon& daemon =
      start_ready({{}, {"--config=" + config, "--platform=simulated"}});
  pictures(daemon, 1);
  Calls running = run_endless(daemon, 2);
  const v1::Pipeline pipeline = daemon.get_pipeline(kPipeline);
  for (const v1::Rank& rank : pipeline.ranks()) {
    // A picture of that size was made.
    EXPECT_TRUE(rank.has_predicted_pass_time()) << rank.DebugString();
  }
  v1::GenerateRequest small_request = endless_request();
  small_request.mutable_spec()->set_height(16);
  small_request.mutable_spec()->set_width(16);
  const auto small = call(daemon, small_request);
  ASSERT_TRUE(small->wait_for_state(Job::STATE_QUEUED));
  const auto alike = call(daemon, endless_request());
  ASSERT_TRUE(alike->wait_for_state(Job::STATE_QUEUED));
  running[0]->cancel();
  ASSERT_TRUE(alike->wait_for_step(1));
  EXPECT_EQ(state_of(daemon, *small), Job::STATE_QUEUED);
  running[1]->cancel();
  EXPECT_TRUE(small->wait_for_step(1));
}

// With the weights on a device that does not hold them, ranks measure how they
// come to it fastest, agree, and say why.
TEST_F(RanksTest, ChooseTogetherWhetherTheyGather) {
  const std::string package =
      make_package({"--blocks=8", "--ballast_bytes=100000"});
  const std::vector<std::string> expected = pictures_of_one_rank(3, package);
  const std::string config = write_config("ranks: 3", package);
  int64_t weights = 0;
  {
    Daemon daemon({{}, {"--config=" + config, "--platform=simulated"}});
    ASSERT_TRUE(daemon.wait_until_ready()) << daemon.log();
    const v1::OffloadReport report = daemon.get_pipeline(kPipeline).offload();
    EXPECT_THAT(report.reason(), HasSubstr("everything fits"));
    weights = report.resident_bytes();
    expect_closes(daemon);
  }
  Daemon& daemon = start_ready(
      {{},
       {"--config=" + config, "--platform=simulated", "--simulated_check",
        absl::StrCat("--simulated_device_memory=", weights)}});
  EXPECT_EQ(pictures(daemon, 3), expected);
  const v1::OffloadReport report = daemon.get_pipeline(kPipeline).offload();
  EXPECT_EQ(report.strategy(), "distributed_layer_wise");
  EXPECT_GT(report.streamed_bytes(), 0);
  EXPECT_THAT(report.reason(),
              AllOf(HasSubstr("the least streaming that fits"),
                    HasSubstr("for a pass, to gather "),
                    HasSubstr(" GB/s on all ranks at once, gathers ")));
}

// What they gather takes much less than what each would copy, and more than
// what blocks take to run.
TEST_F(RanksTest, GatherOnWhereTheirBlocksAreQuick) {
  expect_choice(0, "; ranks gather: for a pass, ", false);
}

// The weights come while the blocks before run, in either way.
TEST_F(RanksTest, LoadAgainAndCopyWhereTheirBlocksAreSlow) {
  expect_choice(40, "; each rank copies for itself: for a pass, ", true);
}

// Ranks that gather wait for nobody whose request is refused, and each answer
// is the request's own.
TEST_F(RanksTest, InvalidRequestsFailAloneAndAtOnce) {
  const std::string config = write_config(
      "ranks: 2 offload { mode: \"layer\" components: \"dit\" layer_options { "
      "component: \"dit\" weight_transfer: \"allgather\" } }");
  Daemon& daemon =
      start_ready({{}, {"--config=" + config, "--platform=simulated"}});
  const std::vector<std::string> expected = pictures(daemon, 2);
  for (int round = 0; round < 2; ++round) {
    Calls calls;
    for (int seed = 1; seed <= 2; ++seed) {
      calls.push_back(call(daemon, make_request(seed)));
      v1::GenerateRequest invalid = make_request(seed);
      invalid.mutable_spec()->set_num_inference_steps(0);
      invalid.mutable_spec()->set_width(1);
      calls.push_back(call(daemon, invalid));
    }
    for (size_t i = 0; i < calls.size(); ++i) {
      const grpc::Status& status = calls[i]->finish();
      if (i % 2 == 0) {
        ASSERT_TRUE(status.ok()) << describe(status);
        EXPECT_EQ(calls[i]->outputs().at(0), expected[i / 2]);
      } else {
        EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
      }
    }
  }
}

TEST_F(RanksTest, ArePartOfTheConfigurationFile) {
  const std::string config =
      write_config("ranks: 2 parallel { data_parallel_size: 2 }");
  Daemon& daemon = start_ready({{}, {"--config=" + config}});
  EXPECT_THAT(daemon.worker_pids(), SizeIs(2));
  ChildProcess::Options options;
  options.arguments = {runfile("client/ferryctl"),
                       absl::StrCat("--address=", daemon.address()),
                       "pipelines", "get", "slow"};
  const ProcessResult result = run_process(options);
  EXPECT_EQ(result.exit.code, 0) << result.err;
  const v1::Pipeline pipeline = daemon.get_pipeline(kPipeline);
  EXPECT_THAT(pipeline.ranks(), SizeIs(2));
  for (const v1::Rank& rank : pipeline.ranks()) {
    EXPECT_THAT(result.out,
                AllOf(HasSubstr(absl::StrCat("rank ", rank.index())),
                      HasSubstr(absl::StrCat("pid ", rank.pid(), " on cpu of ",
                                             rank.host(), " idle"))));
  }
}

// Nothing has been loaded: the daemon ends as with a package that is wrong.
TEST_F(RanksTest, RefusesWhatTheyCannotShare) {
  const std::map<std::string, std::string> refusals = {
      {"ranks: 2 parallel { tensor_parallel_size: 2 }",
       "parallel_config.tensor_parallel_size: 2 is not supported"},
      {"ranks: 2 parallel { use_hsdp: true hsdp_shard_size: 2 }",
       "parallel_config.use_hsdp: HSDP is not supported"},
      {"ranks: 3 parallel { data_parallel_size: 2 }",
       "ranks: 3, but parallel divides the work over 2 (data_parallel_size 2)"},
  };
  for (const auto& [pipeline, refusal] : refusals) {
    Daemon daemon({{}, {"--config=" + write_config(pipeline)}});
    const auto exit = daemon.process().wait(kPatience);
    ASSERT_TRUE(exit.has_value()) << daemon.log();
    EXPECT_EQ(exit->code, 2) << daemon.log();
    EXPECT_THAT(daemon.log(), HasSubstr(refusal));
    EXPECT_THAT(daemon.log(), Not(HasSubstr("pipeline loaded")));
    expect_closes(daemon, 2);
  }
}

}  // namespace
}  // namespace ferry
