#include "platform/base/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/time/time.h"

ABSL_FLAG(std::string, grpc_address, "127.0.0.1:8001", "Where it listens.");
ABSL_FLAG(absl::Duration, lame_duck, absl::ZeroDuration(), "Before a drain.");
ABSL_FLAG(std::optional<int64_t>, seed, std::nullopt, "The seed.");
ABSL_FLAG(bool, json, false, "Prints JSON.");
ABSL_FLAG(std::string, o, "", "The file.");

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class CommandLineTest : public ::testing::Test {
 protected:
  static absl::StatusOr<CommandLine> parse(
      const std::vector<const char*>& arguments) {
    std::vector<const char*> argv = {"program"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return parse_command_line(static_cast<int>(argv.size()), argv.data(),
                              __FILE__);
  }

  static std::string error_of(const std::vector<const char*>& arguments) {
    return std::string(parse(arguments).status().message());
  }

 private:
  absl::FlagSaver saver_;
};

TEST_F(CommandLineTest, SetsFlagsAndKeepsTheRestInOrder) {
  const auto line =
      parse({"generate", "--grpc_address=unix:/x", "a fox", "-o", "fox.png",
             "--lame-duck", "5s", "--seed=0", "--json"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->positional, ElementsAre("generate", "a fox"));
  EXPECT_EQ(absl::GetFlag(FLAGS_grpc_address), "unix:/x");
  EXPECT_EQ(absl::GetFlag(FLAGS_lame_duck), absl::Seconds(5));
  EXPECT_EQ(absl::GetFlag(FLAGS_seed), 0);
  EXPECT_TRUE(absl::GetFlag(FLAGS_json));
  EXPECT_EQ(absl::GetFlag(FLAGS_o), "fox.png");
  EXPECT_TRUE(line->has("lame_duck"));
}

TEST_F(CommandLineTest, TellsWhatWasGiven) {
  const auto line = parse({"--nojson"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->given, ElementsAre("json"));
  EXPECT_FALSE(absl::GetFlag(FLAGS_json));
}

TEST_F(CommandLineTest, RefusesAFlagGivenTwice) {
  EXPECT_EQ(error_of({"--seed=1", "-seed", "2"}), "--seed is given twice");
  EXPECT_EQ(error_of({"--json", "--nojson"}), "--json is given twice");
  EXPECT_EQ(error_of({"--lame-duck=1s", "--lame_duck=1s"}),
            "--lame_duck is given twice");
}

TEST_F(CommandLineTest, NamesTheNearestFlag) {
  EXPECT_THAT(error_of({"--grpc-adress=x"}),
              HasSubstr("did you mean --grpc_address?"));
  EXPECT_THAT(error_of({"--grpc-port=8001"}),
              HasSubstr("did you mean --grpc_address?"));
  EXPECT_THAT(error_of({"--completely_different"}),
              Not(HasSubstr("did you mean")));
}

TEST_F(CommandLineTest, RefusesFlagsOfOthers) {
  // Abseil's own would read further flags from a file or the environment.
  EXPECT_THAT(error_of({"--flagfile=/etc/passwd"}), HasSubstr("unknown flag"));
  EXPECT_THAT(error_of({"--fromenv=seed"}), HasSubstr("unknown flag"));
}

TEST_F(CommandLineTest, NamesAFlagWithABadValue) {
  EXPECT_THAT(error_of({"--seed=many"}), HasSubstr("--seed"));
  EXPECT_THAT(error_of({"--lame_duck=5"}), HasSubstr("--lame_duck"));
  EXPECT_THAT(error_of({"--json=perhaps"}), HasSubstr("--json"));
  EXPECT_EQ(error_of({"-o"}), "--o needs a value");
}

TEST_F(CommandLineTest, TakesEverythingAfterTwoDashes) {
  const auto line = parse({"--", "--seed", "-o"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->positional, ElementsAre("--seed", "-o"));
}

TEST_F(CommandLineTest, HelpAndVersionComeFirst) {
  EXPECT_TRUE(parse({"--help", "--nonsense"})->help);
  EXPECT_TRUE(parse({"--version"})->version);
}

TEST_F(CommandLineTest, DescribesItsOwnFlags) {
  const std::string text = describe_flags(__FILE__);
  EXPECT_THAT(text, HasSubstr("--grpc_address\n      Where it listens. "
                              "Default: 127.0.0.1:8001."));
  EXPECT_THAT(text, Not(HasSubstr("flagfile")));
}

}  // namespace
}  // namespace ferry
