#include "platform/device/get_platform.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "platform/device/platform.h"
#include "platform/device/platform_options.h"

namespace ferry {
namespace {

TEST(GetPlatform, MakesTheCpu) {
  for (const char* name : {"auto", "cpu"}) {
    const auto platform = get_platform({name});
    ASSERT_TRUE(platform.ok()) << platform.status();
    EXPECT_EQ((*platform)->name(), "cpu");
    EXPECT_EQ((*platform)->torch_device(), "cpu");
    EXPECT_TRUE((*platform)->synchronize().ok());
    EXPECT_EQ((*platform)->device(), nullptr);
  }
}

TEST(GetPlatform, SaysThatThereIsNoCudaYet) {
  const absl::Status status = get_platform({"cuda"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "platform: this build has no \"cuda\"; there are \"auto\" and "
            "\"cpu\"");
}

TEST(GetPlatform, RefusesAnUnknownNameAndSaysWhatThereIs) {
  const absl::Status status = get_platform({"tpu"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "platform: \"tpu\" is unknown; there are \"auto\", \"cpu\" and "
            "\"cuda\"");
}

}  // namespace
}  // namespace ferry
