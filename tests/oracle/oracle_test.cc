#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/oracle/compare_cases.h"

namespace ferry {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string read_sample(const std::string& name) {
  std::ifstream file(absl::StrCat("tests/oracle/", name));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Decides as the original: every recorded configuration and pipeline.
TEST(Oracle, AgreesOnTheSamples) {
  for (const char* name : {"config_sample.jsonl", "plan_sample.jsonl"}) {
    const auto comparison = compare_cases(name, read_sample(name));
    ASSERT_TRUE(comparison.ok()) << comparison.status();
    EXPECT_GE(comparison->compared, 60);
    EXPECT_THAT(comparison->differences, IsEmpty());
  }
}

// A comparison that cannot fail proves nothing.
TEST(Oracle, ReportsWhatDiffers) {
  const auto comparison = compare_cases(
      "f", R"({"id": 7, "od_config": {}, "expect": {"error": "x"}})"
           "\n"
           R"({"id": 8, "od_config": {"unknown": 1}, "expect": {}})"
           "\n"
           R"({"id": 9, "od_config": {"x": 1}, "expect": {"error": "x"}})");
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_EQ(comparison->compared, 3);
  ASSERT_THAT(comparison->differences, SizeIs(2));
  EXPECT_THAT(comparison->differences[0], HasSubstr("f 7: recorded "));
  EXPECT_THAT(comparison->differences[1], HasSubstr("f 8: recorded "));
}

TEST(Oracle, NamesALineThatIsNoCase) {
  EXPECT_THAT(std::string(compare_cases("f", "\n{}").status().message()),
              HasSubstr("f:2: "));
}

}  // namespace
}  // namespace ferry
