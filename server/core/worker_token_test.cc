#include "server/core/worker_token.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string file_with(const std::string& text) {
  const std::string path = absl::StrCat(testing::TempDir(), "/token");
  std::ofstream(path) << text;
  return path;
}

TEST(WorkerTokenTest, IsReadWithoutTheWhiteSpaceAroundIt) {
  for (const std::string& text :
       {std::string("0123456789abcdef"), std::string("0123456789abcdef\n"),
        std::string(" 0123456789abcdef \r\n\n")}) {
    EXPECT_EQ(*read_worker_token(file_with(text)), "0123456789abcdef");
  }
  EXPECT_TRUE(read_worker_token(file_with(std::string(256, '~'))).ok());
}

TEST(WorkerTokenTest, MustBeLongAndPrintable) {
  for (const std::string& text :
       {std::string(), std::string("0123456789abcde"), std::string(257, 'x'),
        std::string(100000, 'x'), std::string("01234567 89abcdef"),
        std::string("0123456789abcdef\n0123456789abcdef"),
        std::string("0123456789abcdef\xff"), std::string(20, '\0')}) {
    const absl::Status status = read_worker_token(file_with(text)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("16 to 256"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("0123456789")));
  }
}

TEST(WorkerTokenTest, AFileThatCannotBeReadIsNamed) {
  for (const std::string& path :
       {std::string("/no/such"), testing::TempDir()}) {
    EXPECT_THAT(std::string(read_worker_token(path).status().message()),
                HasSubstr(absl::StrCat("cannot read \"", path)));
  }
}

TEST(WorkerTokenTest, EqualTokensAreEqual) {
  EXPECT_TRUE(tokens_equal("0123456789abcdef", "0123456789abcdef"));
  EXPECT_FALSE(tokens_equal("0123456789abcdef", "0123456789abcdeF"));
  EXPECT_FALSE(tokens_equal("0123456789abcdef", "0123456789abcdef0"));
  EXPECT_FALSE(tokens_equal("", "0"));
}

}  // namespace
}  // namespace ferry
