#include "server/core/address.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

TEST(AddressTest, TakesHostsAndUnixPaths) {
  for (const std::string& address :
       {std::string("127.0.0.1:8001"), std::string("localhost:0"),
        std::string("[::1]:65535"), std::string("[::]:1"),
        std::string("my-host.example_1:80"), std::string("unix:relative"),
        std::string("unix:/run/ferryd.sock"),
        absl::StrCat("unix:", std::string(107, 'x'))}) {
    EXPECT_TRUE(check_address(address).ok()) << address;
  }
}

TEST(AddressTest, SaysWhatWouldBeRight) {
  for (const std::string& address :
       {std::string(""),
        std::string(":"),
        std::string(":80"),
        std::string("host"),
        std::string("host:"),
        std::string("host:65536"),
        std::string("host:-1"),
        std::string("host:+1"),
        std::string("host: 1"),
        std::string("host:1x"),
        std::string("host:000080"),
        std::string("::1:80"),
        std::string("[::1]"),
        std::string("[::1]:x"),
        std::string("[nonsense]:80"),
        std::string("[127.0.0.1]:80"),
        std::string("a b:80"),
        std::string("unix:"),
        absl::StrCat("unix:", std::string(108, 'x')),
        std::string("http://host:80")}) {
    const absl::Status status = check_address(address);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address;
    EXPECT_NE(status.message().find("must be"), std::string::npos);
  }
}

}  // namespace
}  // namespace ferry
