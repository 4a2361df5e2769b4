#include "platform/base/log_escape.h"

#include <gtest/gtest.h>

#include <string>

namespace ferry {
namespace {

std::string json(absl::string_view text) {
  std::string out;
  append_json_string(text, &out);
  return out;
}

std::string plain(absl::string_view text) {
  std::string out;
  append_log_text(text, &out);
  return out;
}

std::string value(absl::string_view text) {
  std::string out;
  append_log_value(text, &out);
  return out;
}

TEST(LogEscapeTest, KeepsOrdinaryText) {
  EXPECT_EQ(json("a fox"), "\"a fox\"");
  EXPECT_EQ(json("grün 狐 🦊"), "\"grün 狐 🦊\"");
  EXPECT_EQ(plain("it's \"quoted\""), "it's \"quoted\"");
}

TEST(LogEscapeTest, EscapesWhatWouldForgeALine) {
  EXPECT_EQ(json("a\nb\r\tc"), "\"a\\nb\\r\\tc\"");
  EXPECT_EQ(plain("a\nb"), "a\\nb");
  EXPECT_EQ(json(absl::string_view("\0\x1b[31m\x7f", 7)),
            "\"\\u0000\\u001b[31m\\u007f\"");
  // NEL, LINE SEPARATOR and PARAGRAPH SEPARATOR.
  EXPECT_EQ(plain("\xc2\x85\xe2\x80\xa8\xe2\x80\xa9"), "\\u0085\\u2028\\u2029");
}

TEST(LogEscapeTest, EscapesQuotesAndBackslashes) {
  EXPECT_EQ(json("\"}{\\"), "\"\\\"}{\\\\\"");
  // An escape that a user typed is told apart from one of ours.
  EXPECT_EQ(plain("a\\nb"), "a\\\\nb");
}

TEST(LogEscapeTest, ShowsBytesThatAreNoUtf8) {
  EXPECT_EQ(json("\xff"), "\"\\\\xff\"");
  EXPECT_EQ(plain("\xff"), "\\xff");
  // Overlong, surrogate, beyond Unicode, cut short.
  EXPECT_EQ(plain("\xc0\x80"), "\\xc0\\x80");
  EXPECT_EQ(plain("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(plain("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(plain("x\xe2\x80"), "x\\xe2\\x80");
}

TEST(LogEscapeTest, QuotesValuesThatNeedIt) {
  EXPECT_EQ(value("jobs/12"), "jobs/12");
  EXPECT_EQ(value(""), "\"\"");
  EXPECT_EQ(value("a b"), "\"a b\"");
  EXPECT_EQ(value("a=b"), "\"a=b\"");
  EXPECT_EQ(value("\" level=error"), "\"\\\" level=error\"");
}

}  // namespace
}  // namespace ferry
