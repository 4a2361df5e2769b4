// Ranks that gather blocks which run again, or backwards: what cannot be
// gathered is refused at load, or copied where the operator leaves that open.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/files.h"
#include "tests/support/generate_call.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A flag of make_package(), and what the error names.
struct Kind {
  std::string flag;
  std::string block;
};

std::vector<Kind> kinds() {
  return {// Each block twice in a row, all of them twice, backwards, and one
          // that comes back.
          {"--block_order=0,0,1,1,2,2", "transformer.blocks.0: block 0 runs"},
          {"--block_order=0,1,2,0,1,2", "transformer.blocks.0: block 0 runs"},
          {"--block_order=2,1,0", "transformer.blocks.1: block 1 runs"},
          {"--block_order=0,1,2,1", "transformer.blocks.1: block 1 runs"},
          // Of an encoder.
          {"--encoder_order=1,0", "text_encoder.blocks.0: block 0 runs"},
          {"--encoder_order=0,1,0,1", "text_encoder.blocks.0: block 0 runs"}};
}

Daemon::Options options_of(const std::string& package,
                           const std::string& pipeline) {
  const std::string path = make_directory("config") + "/ferryd.txtpb";
  write_file(path, absl::StrCat("pipelines { name: \"odd\" path: \"", package,
                                "\" ranks: 2 ", pipeline, " }"));
  return {{},
          {"--config=" + path, "--platform=simulated", "--simulated_check"}};
}

constexpr char kGather[] =
    "offload { mode: \"layer\" components: \"dit\" components: "
    "\"text_encoder\" layer_options { component: \"dit\" weight_transfer: "
    "\"allgather\" } layer_options { component: \"text_encoder\" "
    "weight_transfer: \"allgather\" } }";

std::vector<std::string> pictures(Daemon& daemon, int steps) {
  std::vector<std::string> result;
  for (int seed = 1; seed <= 2; ++seed) {
    v1::GenerateRequest request = make_request(seed);
    request.mutable_spec()->set_pipeline("pipelines/odd");
    request.mutable_spec()->set_num_inference_steps(steps);
    GenerateCall call(daemon.generation(), request);
    EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
    result.push_back(call.outputs().empty() ? "" : call.outputs().at(0));
  }
  return result;
}

class GatheredPassesTest : public DaemonFixture {
 protected:
  static std::vector<std::string> pictures_on_the_host(
      const std::string& package) {
    Daemon daemon({{{"odd", package}}, {"--platform=cpu"}});
    EXPECT_TRUE(daemon.wait_until_ready()) << daemon.log();
    std::vector<std::string> result = pictures(daemon, 3);
    expect_closes(daemon);
    return result;
  }
};

TEST_F(GatheredPassesTest, WhatCannotBeGatheredAsAskedIsRefusedAtLoad) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.flag);
    Daemon daemon(
        options_of(make_package({"--replicated_encoder", kind.flag}), kGather));
    const auto exit = daemon.process().wait(kPatience);
    ASSERT_TRUE(exit.has_value()) << daemon.log();
    EXPECT_EQ(exit->code, 2) << daemon.log();
    EXPECT_THAT(daemon.log(),
                AllOf(HasSubstr("ranks 0, 1: "), HasSubstr(kind.block),
                      HasSubstr("rank-local"), Not(HasSubstr("generation=2"))));
    expect_closes(daemon, 2);
  }
}

// Weights of which the device holds two thirds, and that come to it slowly, so
// that to gather them would be much faster.
TEST_F(GatheredPassesTest, WhatCannotBeGatheredIsCopiedWhereThatIsLeftOpen) {
  for (const std::string order :
       {"0,0,1,1,2,2,3,3,4,4,5,5,6,6,7,7", "7,6,5,4,3,2,1,0",
        "0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7"}) {
    SCOPED_TRACE(order);
    const std::string package =
        make_package({"--blocks=8", "--ballast_bytes=100000",
                      absl::StrCat("--block_order=", order)});
    Daemon::Options options = options_of(package, "");
    options.flags.push_back("--simulated_device_memory=720000");
    options.flags.push_back("--simulated_h2d_gbps=0.005");
    Daemon daemon(options);
    ASSERT_TRUE(daemon.wait_until_ready()) << daemon.log();
    EXPECT_EQ(pictures(daemon, 3), pictures_on_the_host(package));
    const v1::OffloadReport report =
        daemon.get_pipeline("pipelines/odd").offload();
    EXPECT_EQ(report.strategy(), "distributed_layer_wise");
    EXPECT_THAT(
        report.reason(),
        AllOf(HasSubstr("; each rank copies for itself: to gather the "),
              HasSubstr("failed: ranks 0, 1: "),
              HasSubstr(": transformer.blocks.")));
    expect_closes(daemon);
  }
}

// What runs again by how far a request has come does not show at load, and is
// the request's own error.
TEST_F(GatheredPassesTest, WhatOnlySomeRequestsDoFailsThemAlone) {
  const std::string package =
      make_package({"--replicated_encoder", "--again_below_timestep=500"});
  Daemon& daemon = start_ready(options_of(package, kGather));
  const std::vector<std::string> before = pictures(daemon, 1);
  v1::GenerateRequest request = make_request(1);
  request.mutable_spec()->set_pipeline("pipelines/odd");
  request.mutable_spec()->set_num_inference_steps(3);
  GenerateCall call(daemon.generation(), request);
  EXPECT_FALSE(call.finish().ok());
  EXPECT_THAT(call.finish().error_message(),
              HasSubstr("transformer.blocks.0: block 0 runs again"));
  EXPECT_EQ(pictures(daemon, 1), before);
}

// As many stacks as a model likes, none of which waits for another.
TEST_F(GatheredPassesTest, RanksGatherAsManyStacksAsThereAre) {
  const std::string package =
      make_package({"--replicated_encoder", "--encoder_stacks=70"});
  Daemon& daemon = start_ready(options_of(package, kGather));
  EXPECT_EQ(pictures(daemon, 3), pictures_on_the_host(package));
}

}  // namespace
}  // namespace ferry
