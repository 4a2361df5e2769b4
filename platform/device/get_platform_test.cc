#include "platform/device/get_platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "platform/device/platform.h"
#include "platform/device/platform_options.h"

namespace ferry {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(GetPlatform, MakesTheCpu) {
  const auto platform = get_platform({"cpu"});
  ASSERT_TRUE(platform.ok()) << platform.status();
  EXPECT_EQ((*platform)->name(), "cpu");
  EXPECT_EQ((*platform)->torch_device(), "cpu");
  EXPECT_TRUE((*platform)->synchronize().ok());
  EXPECT_EQ((*platform)->device(), nullptr);
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

// Only a GPU, and what its kernels need, makes it succeed.
TEST(GetPlatform, MakesCudaOrSaysWhatIsMissing) {
  const auto platform = get_platform({"cuda"});
  if (platform.ok()) {
    EXPECT_EQ((*platform)->torch_device(), "cuda:0");
    EXPECT_TRUE((*platform)->supports_cpu_offload());
    return;
  }
  const absl::Status& status = platform.status();
  EXPECT_TRUE(absl::IsNotFound(status) || absl::IsFailedPrecondition(status))
      << status;
  EXPECT_THAT(std::string(status.message()), StartsWith("platform: cuda: "));
  EXPECT_THAT(std::string(status.message()),
              AnyOf(HasSubstr("there is no NVIDIA driver"), HasSubstr("GPU"),
                    HasSubstr("libtorch_cuda.so")));
}

TEST(GetPlatform, TakesTheCpuForWantOfAGpu) {
  const bool has_cuda = get_platform({"cuda"}).ok();
  const auto platform = get_platform({"auto"});
  ASSERT_TRUE(platform.ok()) << platform.status();
  EXPECT_EQ((*platform)->name(), has_cuda ? "cuda" : "cpu");
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
