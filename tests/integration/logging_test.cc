// What ferryd writes down, and what not.

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/generate_call.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LoggingTest : public DaemonFixture {
 protected:
  static std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> result;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) result.push_back(line);
    return result;
  }

  // One that succeeds and some that do not, with prompts, labels and names that
  // try to write lines of their own.
  static void send_hostile_requests(Daemon& daemon) {
    v1::GenerateRequest request = make_request();
    request.mutable_spec()->set_negative_prompt(
        absl::StrCat("no ", kPromptCanary));
    request.mutable_spec()->mutable_output()->set_embed_metadata(true);
    (*request.mutable_labels())["key"] = "a\nforged line \"quoted\" \x1b[31m";
    GenerateCall good(daemon.generation(), request);
    EXPECT_TRUE(good.finish().ok()) << describe(good.finish());
    request.mutable_spec()->set_scheduler("x\nforged line");
    GenerateCall bad(daemon.generation(), request);
    EXPECT_FALSE(bad.finish().ok());
    request.mutable_spec()->set_pipeline("pipelines/x\nforged line");
    GenerateCall unknown(daemon.generation(), request);
    EXPECT_FALSE(unknown.finish().ok());
    request = make_request();
    request.mutable_spec()->mutable_prompt()->push_back('\0');
    GenerateCall refused(daemon.generation(), request);
    EXPECT_FALSE(refused.finish().ok());
    EXPECT_THAT(refused.finish().error_message(),
                Not(HasSubstr(kPromptCanary)));
  }
};

TEST_F(LoggingTest, JsonLinesStayWholeAndHoldNoPrompt) {
  Daemon& daemon = start_ready(
      {{{"tiny", make_package()}}, {"--log_format=json", "--log_level=debug"}});
  send_hostile_requests(daemon);
  bool found_call = false;
  for (const std::string& line : lines(daemon.log())) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(json.is_object()) << line;
    EXPECT_TRUE(json.contains("ts")) << line;
    EXPECT_TRUE(json.contains("level")) << line;
    EXPECT_TRUE(json.contains("msg")) << line;
    if (absl::StrContains(line, "ferry.v1.GenerationService/Generate")) {
      found_call = true;
      EXPECT_TRUE(json.contains("grpc_code")) << line;
      EXPECT_TRUE(json.contains("duration_ms")) << line;
    }
  }
  EXPECT_TRUE(found_call) << daemon.log();
  EXPECT_THAT(daemon.log(), Not(HasSubstr(kPromptCanary)));
}

TEST_F(LoggingTest, TextLinesStayWhole) {
  Daemon& daemon = start_ready(
      {{{"tiny", make_package()}}, {"--log_format=text", "--log_level=debug"}});
  send_hostile_requests(daemon);
  for (const std::string& line : lines(daemon.log())) {
    EXPECT_FALSE(absl::StartsWith(line, "forged line")) << line;
    EXPECT_THAT(line, Not(HasSubstr("\x1b")));
  }
  EXPECT_THAT(daemon.log(), Not(HasSubstr(kPromptCanary)));
}

}  // namespace
}  // namespace ferry
