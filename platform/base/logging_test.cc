#include "platform/base/logging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ferry {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;

// Sends the log to a file of its own and reads it back.
class LoggingTest : public ::testing::Test {
 protected:
  void start(LogFormat format, LogLevel level = LogLevel::kInfo) {
    path_ = absl::StrCat(
        getenv("TEST_TMPDIR"), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name(),
        ".log");
    LogOptions options;
    options.format = format;
    options.level = level;
    options.file = path_;
    options.component = "ferryd";
    ASSERT_TRUE(init_logging(options).ok());
  }

  void TearDown() override { ASSERT_TRUE(init_logging(LogOptions()).ok()); }

  std::vector<std::string> lines() const {
    std::ifstream file(path_);
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }

 private:
  std::string path_;
};

TEST_F(LoggingTest, WritesOneJsonObjectALine) {
  start(LogFormat::kJson);
  log_info("job \"a\"\nended",
           {{"job", "jobs/1"}, {"duration_ms", 12.5}, {"rank", 0}});
  ASSERT_THAT(lines(), SizeIs(1));
  const nlohmann::json line = nlohmann::json::parse(lines()[0]);
  EXPECT_EQ(line["msg"], "job \"a\"\nended");
  EXPECT_EQ(line["level"], "info");
  EXPECT_EQ(line["component"], "ferryd");
  EXPECT_EQ(line["job"], "jobs/1");
  EXPECT_EQ(line["duration_ms"], 12.5);
  EXPECT_EQ(line["rank"], 0);
  EXPECT_THAT(line["ts"].get<std::string>(),
              MatchesRegex("[0-9]{4}-[0-9-]{5}T[0-9:]{8}\\.[0-9]{6}Z"));
}

TEST_F(LoggingTest, JsonStaysJsonWithNumbersThatItLacks) {
  start(LogFormat::kJson);
  log_info("x", {{"ratio", std::numeric_limits<double>::quiet_NaN()},
                 {"most", std::numeric_limits<double>::infinity()}});
  EXPECT_EQ(nlohmann::json::parse(lines()[0])["ratio"], "nan");
  EXPECT_EQ(nlohmann::json::parse(lines()[0])["most"], "inf");
}

TEST_F(LoggingTest, NobodyForgesALineOrAField) {
  start(LogFormat::kText);
  log_warning("refused", {{"peer", "x\n2026 error ferryd[1] forged"},
                          {"labels", "a job=jobs/2"}});
  ASSERT_THAT(lines(), SizeIs(1));
  EXPECT_THAT(lines()[0], HasSubstr(" warn ferryd["));
  EXPECT_THAT(lines()[0], HasSubstr("peer=\"x\\n2026 error"));
  EXPECT_THAT(lines()[0], HasSubstr("labels=\"a job=jobs/2\""));
}

TEST_F(LoggingTest, DropsWhatIsBelowTheLevel) {
  start(LogFormat::kText, LogLevel::kWarning);
  log_debug("one");
  log_info("two");
  log_warning("three");
  log_error("four");
  ASSERT_THAT(lines(), SizeIs(2));
  EXPECT_THAT(lines()[0], HasSubstr("three"));
  EXPECT_THAT(lines()[1], HasSubstr("four"));
}

TEST_F(LoggingTest, LeavesEmptyFieldsOut) {
  start(LogFormat::kJson);
  log_info("x", {{"job", ""}, {"pipeline", "pipelines/a"}});
  const nlohmann::json line = nlohmann::json::parse(lines()[0]);
  EXPECT_FALSE(line.contains("job"));
  EXPECT_TRUE(line.contains("pipeline"));
}

TEST_F(LoggingTest, CutsLongValuesBetweenCharacters) {
  start(LogFormat::kJson);
  std::string value(4095, 'x');
  for (int i = 0; i < 100'000; ++i) value += "é";
  log_info("x", {{"error", value}});
  EXPECT_EQ(nlohmann::json::parse(lines()[0])["error"],
            std::string(4095, 'x') + "… (204095 bytes)");
}

TEST_F(LoggingTest, FieldsBelongToOneLine) {
  start(LogFormat::kText);
  log_info("first", {{"job", "jobs/1"}});
  log_info("second");
  EXPECT_THAT(lines()[1], Not(HasSubstr("job")));
}

TEST(LogOptionsTest, NamesAFileThatCannotBeOpened) {
  LogOptions options;
  options.file = "/proc/none/x.log";
  const absl::Status status = init_logging(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/none/x.log"));
}

TEST(LogOptionsTest, ParsesLevelsAndFormats) {
  EXPECT_EQ(*parse_log_level("warn"), LogLevel::kWarning);
  EXPECT_EQ(*parse_log_format("json"), LogFormat::kJson);
  EXPECT_THAT(std::string(parse_log_level("loud").status().message()),
              HasSubstr("debug, info, warn or error"));
  EXPECT_FALSE(parse_log_format("").ok());
}

}  // namespace
}  // namespace ferry
