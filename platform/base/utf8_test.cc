#include "platform/base/utf8.h"

#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace ferry {
namespace {

TEST(Utf8Test, MeasuresCharacters) {
  EXPECT_EQ(utf8_valid_length("ab"), 1u);
  EXPECT_EQ(utf8_valid_length(std::string(1, '\0')), 1u);
  EXPECT_EQ(utf8_valid_length("\u00e9!"), 2u);
  EXPECT_EQ(utf8_valid_length("\u6771!"), 3u);
  EXPECT_EQ(utf8_valid_length("\U0010ffff!"), 4u);
}

TEST(Utf8Test, RefusesWhatIsNoCharacter) {
  for (const char* text :
       {"\x80", "\xff", "\xc3", "\xc3!", "\xe6\x9d", "\xf0\x9f\x8e",
        // Overlong, surrogate, beyond U+10FFFF.
        "\xc0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xed\xa0\x80",
        "\xf4\x90\x80\x80"}) {
    EXPECT_EQ(utf8_valid_length(text), 0u) << testing::PrintToString(text);
  }
}

TEST(Utf8Test, LeadTellsTheLengthButNotBeyondTheText) {
  EXPECT_EQ(utf8_lead_length("abc"), 1u);
  EXPECT_EQ(utf8_lead_length("\x80zz"), 1u);
  EXPECT_EQ(utf8_lead_length("\xc3zz"), 2u);
  EXPECT_EQ(utf8_lead_length("\xe6zzz"), 3u);
  EXPECT_EQ(utf8_lead_length("\xf0zzzz"), 4u);
  EXPECT_EQ(utf8_lead_length("\xf0z"), 2u);
}

TEST(Utf8Test, WholeTexts) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8(absl::string_view("a\0\xC3\xA9", 4)));
  EXPECT_FALSE(is_utf8("a\xC3"));
  EXPECT_FALSE(is_utf8("\xC3\xA9\xFFz"));
}

}  // namespace
}  // namespace ferry
