#include "platform/device/get_platform.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "platform/device/platform.h"

namespace ferry {
namespace {

TEST(GetPlatform, MakesTheCpu) {
  const auto platform = get_platform("cpu");
  ASSERT_TRUE(platform.ok()) << platform.status();
  EXPECT_EQ((*platform)->name(), "cpu");
  EXPECT_EQ((*platform)->torch_device(), "cpu");
  EXPECT_TRUE((*platform)->synchronize().ok());
}

TEST(GetPlatform, RefusesAnUnknownNameAndSaysWhatThereIs) {
  const absl::Status status = get_platform("tpu").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "platform: \"tpu\" is unknown; there is \"cpu\"");
}

}  // namespace
}  // namespace ferry
