#include "server/worker/join_flags.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ferry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class JoinFlagsTest : public ::testing::Test {
 protected:
  JoinFlagsTest() {
    const std::string path = absl::StrCat(::testing::TempDir(), "/token");
    std::ofstream(path) << "0123456789abcdef\n";
    flags_.rendezvous = "10.0.0.1:8005";
    flags_.pipeline = "demo";
    flags_.worker_token_file = path;
    flags_.rank = 1;
    flags_.world_size = 2;
  }

  // Every line of the error.
  std::string error() const {
    const absl::Status status = make_dial_options(flags_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  JoinFlags flags_;
};

TEST_F(JoinFlagsTest, SayHowToJoin) {
  flags_.device = 3;
  flags_.bind_address = "10.0.0.2";
  flags_.join_timeout = absl::Seconds(5);
  const auto options = make_dial_options(flags_);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->rendezvous.to_string(), "10.0.0.1:8005");
  EXPECT_EQ(options->pipeline, "pipelines/demo");
  EXPECT_EQ(options->token, "0123456789abcdef");
  EXPECT_EQ(options->rank, 1);
  EXPECT_EQ(options->world_size, 2);
  EXPECT_EQ(options->device_index, 3);
  EXPECT_EQ(options->bind_address, "10.0.0.2");
  EXPECT_EQ(options->join_timeout, absl::Seconds(5));
}

TEST_F(JoinFlagsTest, ALeaderWorkerSetSaysTheRest) {
  flags_.rendezvous = "";
  flags_.rank = -1;
  flags_.world_size = -1;
  flags_.leader_address = "ferry-0.ferry.default";
  flags_.group_size = "4";
  flags_.worker_index = "3";
  const auto options = make_dial_options(flags_);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->rendezvous.to_string(), "ferry-0.ferry.default:8005");
  EXPECT_EQ(options->rank, 3);
  EXPECT_EQ(options->world_size, 4);
}

TEST_F(JoinFlagsTest, FlagsWinOverTheEnvironment) {
  flags_.leader_address = "elsewhere";
  flags_.group_size = "many";
  flags_.worker_index = "none";
  const auto options = make_dial_options(flags_);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->rendezvous.host, "10.0.0.1");
  EXPECT_EQ(options->rank, 1);
}

TEST_F(JoinFlagsTest, AllThatIsMissingIsNamedAtOnce) {
  flags_ = JoinFlags();
  EXPECT_THAT(error(), AllOf(HasSubstr("--rendezvous: must be HOST:PORT"),
                             HasSubstr("--pipeline: must be"),
                             HasSubstr("--rank: is required"),
                             HasSubstr("--world_size: is required"),
                             HasSubstr("--worker_token_file: is required")));
}

TEST_F(JoinFlagsTest, AllThatIsWrongIsNamedAtOnce) {
  flags_.rendezvous = "10.0.0.1:0";
  flags_.pipeline = "a b";
  flags_.worker_token_file = "/no/such/token";
  flags_.rank = 2;
  flags_.device = -1;
  flags_.join_timeout = absl::ZeroDuration();
  EXPECT_EQ(
      error(),
      "--rendezvous: must have a port\n"
      "--pipeline: must be the name of a pipeline of ferryd, got \"a b\"\n"
      "--rank: must be less than world_size, 2, got 2\n"
      "--worker_token_file: cannot read \"/no/such/token\"\n"
      "--device: must be at least 0, got -1\n"
      "--join_timeout: must be positive, got 0");
  flags_.rank = -1;
  flags_.worker_index = "x";
  EXPECT_THAT(
      error(),
      HasSubstr("--rank: must be a number, got LWS_WORKER_INDEX=\"x\""));
}

}  // namespace
}  // namespace ferry
