#include "platform/device/get_platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/cuda/cuda_platform.h"
#include "platform/device/cuda/testing/fake_cuda_api.h"
#include "platform/device/cuda/testing/fake_cuda_torch.h"
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
  const absl::Status cuda = get_platform({"cuda"}).status();
  const auto platform = get_platform({"auto"});
  if (!cuda.ok() && !absl::IsNotFound(cuda)) {
    EXPECT_EQ(platform.status().code(), cuda.code());
    return;
  }
  ASSERT_TRUE(platform.ok()) << platform.status();
  EXPECT_EQ((*platform)->name(), cuda.ok() ? "cuda" : "cpu");
}

// What "auto" is for a rank on a machine like this, whose LibTorch says
// `torch`.
absl::StatusOr<std::unique_ptr<Platform>> choose(
    const FakeCudaApi::Machine& machine, int rank,
    absl::Status torch = absl::OkStatus()) {
  PlatformOptions options{"auto"};
  options.cuda.index = rank;
  return get_platform(options,
                      [&](const CudaDeviceOptions& cuda)
                          -> absl::StatusOr<std::unique_ptr<Platform>> {
                        auto api = std::make_unique<FakeCudaApi>();
                        api->machine() = machine;
                        auto libtorch = std::make_unique<FakeCudaTorch>();
                        libtorch->load_status = torch;
                        return CudaPlatform::create(cuda, std::move(api),
                                                    std::move(libtorch));
                      });
}

TEST(GetPlatform, EveryRankIsOnTheCpuWhereThereIsNoDriverOrNoGpu) {
  FakeCudaApi::Machine no_driver;
  no_driver.driver_version = 0;
  FakeCudaApi::Machine no_gpu;
  no_gpu.devices = 0;
  for (const FakeCudaApi::Machine& machine : {no_driver, no_gpu}) {
    for (int rank = 0; rank < 3; ++rank) {
      const auto platform = choose(machine, rank);
      ASSERT_TRUE(platform.ok()) << platform.status();
      EXPECT_EQ((*platform)->name(), "cpu");
    }
  }
}

TEST(GetPlatform, ARankWithoutAGpuOfItsOwnIsAnError) {
  FakeCudaApi::Machine one_gpu;
  const auto first = choose(one_gpu, 0);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->name(), "cuda");
  for (const int rank : {1, 7}) {
    const absl::Status status = choose(one_gpu, rank).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("platform: auto: this rank needs GPU ",
                                       rank, ", and this machine has 1 GPU")));
  }
}

TEST(GetPlatform, AGpuThatLacksSomethingIsAnErrorThatNamesIt) {
  absl::Status status =
      choose({}, 0,
             absl::FailedPreconditionError(
                 "libcudnn.so.9: cannot open shared object file"))
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "platform: auto: libcudnn.so.9: cannot open shared object file; "
            "\"cpu\" computes without a GPU");
  FakeCudaApi::Machine old_driver;
  old_driver.driver_version = 12040;
  for (int rank = 0; rank < 2; ++rank) {
    status = choose(old_driver, rank).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("CUDA 12.4"));
  }
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
