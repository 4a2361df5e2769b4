// The device of the workers, on a machine without a GPU (or with one that the
// test does not show them).

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/generate_call.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

Daemon::Options options_for(const std::string& platform) {
  Daemon::Options options;
  options.pipelines = {{"tiny", make_package()}};
  options.flags = {"--platform=" + platform};
  options.environment = {"CUDA_VISIBLE_DEVICES="};
  return options;
}

TEST(PlatformTest, CudaIsALoadErrorThatNamesWhatIsMissing) {
  Daemon daemon(options_for("cuda"));
  const auto exit = daemon.process().wait(kPatience);
  ASSERT_TRUE(exit.has_value()) << daemon.log();
  EXPECT_THAT(
      daemon.log(),
      AnyOf(HasSubstr("platform: cuda: there is no NVIDIA driver"),
            HasSubstr("platform: cuda: the NVIDIA driver shows no GPU")));
  expect_closes(daemon, 2);
}

TEST(PlatformTest, AutoComputesOnTheCpuAndSaysWhy) {
  Daemon daemon(options_for("auto"));
  ASSERT_TRUE(daemon.wait_until_ready()) << daemon.log();
  EXPECT_THAT(daemon.log(), HasSubstr("computing on the CPU"));
  EXPECT_THAT(daemon.log(), HasSubstr("NVIDIA driver"));
  EXPECT_EQ(daemon.get_pipeline("pipelines/tiny").offload().device(), "cpu");
  GenerateCall call(daemon.generation(), make_request());
  EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
  expect_idle(daemon);
  expect_closes(daemon);
}

}  // namespace
}  // namespace ferry
