#include "platform/device/get_platform.h"

#include <gtest/gtest.h>

#include <limits>

#include "absl/status/status.h"
#include "absl/time/time.h"
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

TEST(GetPlatform, MakesTheSimulatedOneAsDescribed) {
  PlatformOptions options{"simulated"};
  options.simulated.memory_bytes = 4096;
  const auto platform = get_platform(options);
  ASSERT_TRUE(platform.ok()) << platform.status();
  EXPECT_EQ((*platform)->name(), "simulated");
  EXPECT_EQ((*platform)->torch_device(), "cpu");
  EXPECT_TRUE((*platform)->supports_cpu_offload());
  EXPECT_EQ((*platform)->offload_unsupported_reason(), "");
  EXPECT_NE((*platform)->device(), nullptr);
  EXPECT_TRUE((*platform)->synchronize().ok());
  (*platform)->empty_cache();
  const auto info = (*platform)->memory_info();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->free_bytes, 4096);
  EXPECT_EQ(info->total_bytes, 4096);
}

TEST(GetPlatform, ListsAllThatIsWrongWithTheSimulatedOne) {
  PlatformOptions options{"simulated"};
  options.simulated.memory_bytes = 0;
  options.simulated.h2d_gbps = 0;
  options.simulated.d2h_gbps = std::numeric_limits<double>::infinity();
  options.simulated.latency = -absl::Seconds(1);
  options.simulated.copy_engines = 17;
  const absl::Status status = get_platform(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "simulated_device_memory: 0 is not from 1 to 1099511627776 bytes; "
            "simulated_h2d_gbps: 0 is not a positive number; "
            "simulated_d2h_gbps: inf is not a positive number; "
            "simulated_latency: -1s is not from 0 to 1s; "
            "simulated_copy_engines: 17 is not from 1 to 16");
}

TEST(GetPlatform, SaysThatThereIsNoCudaYet) {
  const absl::Status status = get_platform({"cuda"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "platform: this build has no \"cuda\"; there are \"auto\", "
            "\"cpu\" and \"simulated\"");
}

TEST(GetPlatform, RefusesAnUnknownNameAndSaysWhatThereIs) {
  const absl::Status status = get_platform({"tpu"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "platform: \"tpu\" is unknown; there are \"auto\", \"cpu\", "
            "\"cuda\" and \"simulated\"");
}

}  // namespace
}  // namespace ferry
