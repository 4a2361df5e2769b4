#include "pipelines/json/strict_json.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pipelines/json/git_lfs.h"

namespace ferry {
namespace {

constexpr int kDepth = 8;

std::string error_of(const std::string& text) {
  const absl::Status status = parse_strict_json(text, kDepth).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(StrictJson, BlanksMayStandAroundTheObject) {
  for (const char* text :
       {"{}", " {}", "{} ", "\n{}\r\n\t", "{\"a\": \"\\u0000\"}"}) {
    EXPECT_TRUE(parse_strict_json(text, kDepth).ok()) << text;
  }
}

TEST(StrictJson, NothingElseStandsBehindIt) {
  for (const char* rest : {"x", "{}", "}", ",", "#", "/* */", "\xC2\xA0"}) {
    EXPECT_EQ(error_of(absl::StrCat("{}", rest)).substr(0, 18),
              "is no JSON from by")
        << rest;
  }
}

TEST(StrictJson, ANulIsNoEnd) {
  const std::vector<std::pair<std::string, int>> cases = {
      {std::string("{}\0", 3), 3},
      {std::string("{}\0 {\"shift\": 3}", 16), 3},
      {std::string("{}  \0\0\0", 7), 5},
      {std::string("{\"a\0\": 1}", 9), 4},
      {std::string("\0{}", 3), 1},
  };
  for (const auto& [text, byte] : cases) {
    EXPECT_EQ(error_of(text), absl::StrCat("is no JSON from byte ", byte,
                                           " on: it holds a NUL"));
  }
}

TEST(StrictJson, CallsPointersAndByteOrderMarksByName) {
  EXPECT_EQ(error_of("\xEF\xBB\xBF{}"),
            "begins with a byte order mark (BOM) of UTF-8; save it as UTF-8 "
            "without one");
  EXPECT_EQ(error_of(std::string("\xFF\xFE{\0}\0", 6)),
            "begins with a byte order mark (BOM) of UTF-16; save it as UTF-8 "
            "without one");
  EXPECT_EQ(error_of(std::string("\xFE\xFF\0{\0}", 6)),
            "begins with a byte order mark (BOM) of UTF-16; save it as UTF-8 "
            "without one");
  for (const char* version :
       {"git-lfs.github.com/spec/v1", "hawser.github.com/spec/v1"}) {
    EXPECT_EQ(error_of(absl::StrCat("version https://", version,
                                    "\noid sha256:00\nsize 12\n")),
              kGitLfsDefect);
  }
  EXPECT_FALSE(is_git_lfs_pointer("version 3"));
  EXPECT_FALSE(is_git_lfs_pointer(""));
}

TEST(StrictJson, RefusesWhatIsNoObjectOfJson) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "is no JSON from byte 1 on"},
      {"[]", "is no JSON object"},
      {"7", "is no JSON object"},
      {"{\"a\": NaN}", "is no JSON from byte 7 on"},
      {"{\"a\": 1,}", "is no JSON from byte 9 on"},
      {"{'a': 1}", "is no JSON from byte 2 on"},
      {"{\"a\": 1e999}", "holds a number without bounds"},
      {"{\"\xC0\": 1}", "is no UTF-8"},
      {"{\"a\": 1, \"a\": 1}", "has the key \"a\" twice"},
      {"{\"a\": [[[[[[[[1]]]]]]]]}", "nests deeper than 8 levels"},
  };
  for (const auto& [text, told] : cases) EXPECT_EQ(error_of(text), told);
}

}  // namespace
}  // namespace ferry
