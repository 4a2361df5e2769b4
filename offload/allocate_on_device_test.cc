#include "offload/allocate_on_device.h"

#include <gtest/gtest.h>

#include <memory>

#include "absl/status/status.h"
#include "platform/device/cuda/cuda_device.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/cuda/testing/fake_cuda_api.h"
#include "platform/device/cuda/testing/fake_cuda_torch.h"
#include "platform/device/device_arena.h"

namespace ferry {
namespace {

// What LibTorch's cache holds is given back once, and that is tried once.
TEST(AllocateOnDevice, EmptiesTheCacheAndTriesOnceMore) {
  FakeCudaApi api;
  FakeCudaTorch torch;
  const auto device = *CudaDevice::create(CudaDeviceOptions(), &api, &torch);
  EXPECT_TRUE(allocate_on_device(*device, 4096, "slot").ok());
  EXPECT_EQ(torch.emptied, 0);

  api.fail("malloc", 1, cudaErrorMemoryAllocation);
  EXPECT_TRUE(allocate_on_device(*device, 4096, "slot").ok());
  EXPECT_EQ(torch.emptied, 1);
  EXPECT_EQ(api.calls("malloc"), 3);

  api.fail("malloc", 1, cudaErrorMemoryAllocation);
  api.fail("malloc", 2, cudaErrorMemoryAllocation);
  EXPECT_EQ(allocate_on_device(*device, 4096, "slot").status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(torch.emptied, 2);
  EXPECT_EQ(api.calls("malloc"), 5);

  // Of a device that failed nothing helps.
  api.fail("malloc", 1, cudaErrorIllegalAddress, /*sticky=*/true);
  EXPECT_EQ(allocate_on_device(*device, 4096, "slot").status().code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(torch.emptied, 2);
}

}  // namespace
}  // namespace ferry
