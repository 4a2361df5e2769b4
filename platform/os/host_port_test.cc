#include "platform/os/host_port.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"

namespace ferry {
namespace {

TEST(HostPortTest, ReadsWhatItWrites) {
  for (const char* text : {"127.0.0.1:8005", "ferry-0.ferry.default:1",
                           "[::1]:65535", "[fe80::1]:0"}) {
    const auto address = parse_host_port(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->to_string(), text);
  }
  EXPECT_EQ(parse_host_port("[::1]:7")->host, "::1");
  EXPECT_EQ(parse_host_port("[::1]:7")->port, 7);
}

TEST(HostPortTest, RefusesWhatIsNone) {
  for (const char* text :
       {"", ":", "host", "host:", ":80", "host:65536", "host:-1", "host:+1",
        "host:8x", "host:000080", "::1:80", "[::1]", "[::1:80", "[host]:80",
        "[]:80"}) {
    const auto address = parse_host_port(text);
    EXPECT_TRUE(absl::IsInvalidArgument(address.status())) << text;
  }
}

}  // namespace
}  // namespace ferry
