#include "platform/base/random_hex.h"

#include <gtest/gtest.h>

#include <set>

#include "absl/strings/ascii.h"

namespace ferry {
namespace {

TEST(RandomHex, IsDigitsAndNeverTheSame) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string text = random_hex(4);
    EXPECT_EQ(text.size(), 32u);
    for (const char c : text) {
      EXPECT_TRUE(absl::ascii_isxdigit(c) && !absl::ascii_isupper(c)) << text;
    }
    seen.insert(text);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

}  // namespace
}  // namespace ferry
