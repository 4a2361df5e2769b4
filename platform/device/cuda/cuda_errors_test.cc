// Every error that CUDA knows, of calls of every kind, where the device
// recovers from it and where it does not.

#include "platform/device/cuda/cuda_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/device/cuda/cuda_api.h"
#include "platform/device/cuda/cuda_device.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/cuda/cuda_runtime.h"
#include "platform/device/cuda/testing/fake_cuda_api.h"
#include "platform/device/cuda/testing/fake_cuda_torch.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/event.h"
#include "platform/device/host_arena.h"
#include "platform/device/stream.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kBytes = 4096;

CudaDeviceOptions small_options() {
  CudaDeviceOptions options;
  options.staging_bytes = kBytes;
  options.populate_threads = 1;
  return options;
}

// By the runtime, which needs no GPU for that.
std::vector<cudaError_t> all_errors() {
  CudaRuntime runtime;
  const std::string unknown =
      runtime.get_error_name(static_cast<cudaError_t>(998));
  std::vector<cudaError_t> errors;
  for (int code = 1; code < 1000; ++code) {
    const auto error = static_cast<cudaError_t>(code);
    if (runtime.get_error_name(error) != unknown) errors.push_back(error);
  }
  return errors;
}

TEST(CudaErrorsTest, TheRuntimeKnowsMany) {
  EXPECT_GT(all_errors().size(), 100u);
}

// Whatever registering says: the arena serves, with staged copies.
TEST(CudaErrorsTest, WhatCannotBeRegisteredIsStagedWhateverTheErrorIs) {
  for (const cudaError_t error : all_errors()) {
    FakeCudaApi api;
    FakeCudaTorch torch;
    const auto device = *CudaDevice::create(small_options(), &api, &torch);
    api.fail("host_register", 1, error);
    const auto arena = device->allocate_host(kBytes, "image");
    ASSERT_TRUE(arena.ok()) << error << ": " << arena.status();
    EXPECT_EQ(device->stats().host_arenas.staged_bytes, kBytes) << error;
    const DeviceArena slot = *device->allocate(kBytes, "slot");
    const Stream stream = device->current_stream();
    EXPECT_TRUE(device
                    ->copy_async(stream, {CopyKind::kHostToDevice, slot.data(),
                                          arena->data(), kBytes})
                    .ok())
        << error;
    EXPECT_TRUE(device->synchronize().ok()) << error;
    EXPECT_EQ(slot.data()[kBytes - 1], '\0') << error;
  }
}

TEST(CudaErrorsTest, ADeviceThatDoesNotRecoverHasFailedWhateverTheErrorIs) {
  for (const cudaError_t error : all_errors()) {
    FakeCudaApi api;
    FakeCudaTorch torch;
    const auto device = *CudaDevice::create(small_options(), &api, &torch);
    api.fail("host_register", 1, error, /*sticky=*/true);
    EXPECT_EQ(device->allocate_host(kBytes, "image").status().code(),
              absl::StatusCode::kInternal)
        << error;
    api.clear_faults();
    EXPECT_EQ(device->memory_info().status().code(),
              absl::StatusCode::kInternal)
        << error;
  }
}

// The same for calls whose errors come from work that was given before.
TEST(CudaErrorsTest, OtherCallsRecoverAsWell) {
  for (const char* call :
       {"malloc", "event_create_with_flags", "event_record", "memcpy_async",
        "stream_create_with_priority", "stream_synchronize"}) {
    for (const cudaError_t error : all_errors()) {
      FakeCudaApi api;
      FakeCudaTorch torch;
      const auto device = *CudaDevice::create(small_options(), &api, &torch);
      const HostArena image = *device->allocate_host(kBytes, "image");
      const auto use = [&] {
        const auto slot = device->allocate(kBytes, "slot");
        if (!slot.ok()) return slot.status();
        const auto event = device->create_event(false);
        if (!event.ok()) return event.status();
        const auto lease =
            device->acquire_stream(StreamKind::kTransfer, "copy");
        if (!lease.ok()) return lease.status();
        absl::Status status = device->copy_async(
            lease->get(),
            {CopyKind::kHostToDevice, slot->data(), image.data(), kBytes});
        status.Update(device->record(*event, lease->get()));
        status.Update(device->synchronize(lease->get()));
        return status;
      };
      api.fail(call, 1, error);
      const absl::Status status = use();
      EXPECT_FALSE(status.ok()) << call << " " << error;
      EXPECT_NE(status.code(), absl::StatusCode::kInternal)
          << call << ": " << status;
      EXPECT_EQ(use(), absl::OkStatus()) << call << " " << error;
    }
  }
}

// A call may tell of itself while the work before it has just ended the device.
TEST(CudaErrorsTest, AnErrorThatComesMeanwhileCounts) {
  FakeCudaApi api;
  ASSERT_EQ(api.set_device(0), cudaSuccess);
  CudaErrors errors(&api);
  api.fail("mem_get_info", 1, cudaErrorIllegalAddress, /*sticky=*/true);
  const absl::Status status =
      errors.check(cudaErrorInvalidValue, "cudaHostRegister");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("cudaErrorInvalidValue); then cudaErrorIllegalAddress"));
  EXPECT_EQ(errors.failure(), status);
}

// One refusal proves nothing.
TEST(CudaErrorsTest, ADeviceThatAnswersAgainWorks) {
  FakeCudaApi api;
  ASSERT_EQ(api.set_device(0), cudaSuccess);
  CudaErrors errors(&api);
  api.fail("mem_get_info", 1, cudaErrorUnknown);
  const absl::Status status =
      errors.check(cudaErrorUnknown, "cudaHostRegister");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("device failed")));
  EXPECT_EQ(errors.failure(), absl::OkStatus());
  EXPECT_EQ(api.get_last_error(), cudaSuccess);
}

}  // namespace
}  // namespace ferry
