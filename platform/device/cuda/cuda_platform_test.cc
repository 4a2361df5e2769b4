#include "platform/device/cuda/cuda_platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/cuda/testing/fake_cuda_api.h"
#include "platform/device/cuda/testing/fake_cuda_torch.h"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CudaPlatformTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<CudaPlatform>> create() {
    return CudaPlatform::create(options_, std::move(api_), std::move(torch_));
  }

  CudaDeviceOptions options_;
  std::unique_ptr<FakeCudaApi> api_ = std::make_unique<FakeCudaApi>();
  std::unique_ptr<FakeCudaTorch> torch_ = std::make_unique<FakeCudaTorch>();
};

TEST_F(CudaPlatformTest, IsTheDeviceWithItsNumber) {
  api_->machine().devices = 4;
  options_.index = 3;
  FakeCudaTorch& torch = *torch_;
  const auto platform = create();
  ASSERT_TRUE(platform.ok()) << platform.status();
  EXPECT_EQ((*platform)->name(), "cuda");
  EXPECT_EQ((*platform)->torch_device(), "cuda:3");
  EXPECT_EQ(torch.loaded_device, 3);
  EXPECT_TRUE((*platform)->supports_cpu_offload());
  EXPECT_EQ((*platform)->offload_unsupported_reason(), "");
  ASSERT_NE((*platform)->device(), nullptr);
  EXPECT_EQ((*platform)->memory_info()->total_bytes, 1 << 30);
  EXPECT_TRUE((*platform)->synchronize().ok());
  (*platform)->empty_cache();
  EXPECT_EQ(torch.emptied, 1);
}

// Loading LibTorch's kernels, their cache, and the end: nothing of it is on the
// GPU that a thread has before it sets one.
TEST_F(CudaPlatformTest, UsesNoGpuButItsOwn) {
  FakeCudaApi& api = *api_;
  api.machine().devices = 3;
  torch_->api = &api;
  options_.index = 2;
  auto platform = create();
  ASSERT_TRUE(platform.ok()) << platform.status();
  std::thread([&] { (*platform)->empty_cache(); }).join();
  EXPECT_THAT(api.misuses(), IsEmpty());
  EXPECT_THAT(api.contexts(), ElementsAre(2));
}

TEST_F(CudaPlatformTest, NamesWhatIsMissing) {
  struct Row {
    std::function<void(FakeCudaApi::Machine&)> break_machine;
    absl::StatusCode code;
    std::string message;
  };
  const std::vector<Row> rows = {
      {[](auto& machine) { machine.driver_version = 0; },
       absl::StatusCode::kNotFound,
       "there is no NVIDIA driver: libcuda.so.1 is not installed"},
      {[](auto& machine) { machine.driver_version = 12040; },
       absl::StatusCode::kFailedPrecondition,
       "the NVIDIA driver is for CUDA 12.4 and must be for 13.0 or newer"},
      {[](auto& machine) { machine.devices = 0; }, absl::StatusCode::kNotFound,
       "the NVIDIA driver shows no GPU to this process"},
      {[](auto& machine) { machine.devices = 2; },
       absl::StatusCode::kFailedPrecondition,
       "this rank needs GPU 2, and this machine has 2 GPUs that it may use "
       "(CUDA_VISIBLE_DEVICES); each rank needs one of its own"},
  };
  options_.index = 2;
  for (const Row& row : rows) {
    api_ = std::make_unique<FakeCudaApi>();
    torch_ = std::make_unique<FakeCudaTorch>();
    row.break_machine(api_->machine());
    // Half a gigabyte of kernels is not opened for nothing.
    torch_->load_status = absl::InternalError("it was loaded");
    const absl::Status status = create().status();
    EXPECT_EQ(status.code(), row.code);
    EXPECT_EQ(status.message(), row.message);
  }
}

TEST_F(CudaPlatformTest, SaysWhatElseCudaSays) {
  api_->fail("get_device_count", 1, cudaErrorSystemNotReady);
  const absl::Status status = create().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cudaGetDeviceCount"));
}

TEST_F(CudaPlatformTest, SaysWhatLibTorchLacks) {
  torch_->load_status = absl::FailedPreconditionError("libfoo.so is missing");
  EXPECT_EQ(create().status(),
            absl::FailedPreconditionError("libfoo.so is missing"));
}

TEST_F(CudaPlatformTest, ADeviceThatCannotBeReadiedIsAnError) {
  for (const char* call : {"set_device", "device_get_attribute",
                           "device_get_stream_priority_range"}) {
    api_ = std::make_unique<FakeCudaApi>();
    torch_ = std::make_unique<FakeCudaTorch>();
    api_->fail(call, 1, cudaErrorDevicesUnavailable);
    const absl::Status status = create().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << call;
    EXPECT_THAT(std::string(status.message()), HasSubstr("GPU 0: ")) << call;
  }
}

// Only the NUMA node is lost.
TEST_F(CudaPlatformTest, ADeviceWithoutAnAddressServes) {
  api_->fail("device_get_pci_bus_id", 1, cudaErrorInvalidValue);
  EXPECT_TRUE(create().ok());
}

}  // namespace
}  // namespace ferry
