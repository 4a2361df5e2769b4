// What a CUDA device does when calls fail, at every place.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "platform/base/status_macros.h"
#include "platform/device/cuda/cuda_device.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/cuda/testing/fake_cuda_api.h"
#include "platform/device/cuda/testing/fake_cuda_torch.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/event.h"
#include "platform/device/host_arena.h"
#include "platform/device/stream.h"
#include "platform/device/stream_lease.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBytes = 4096;

CudaDeviceOptions small_options() {
  CudaDeviceOptions options;
  options.register_bytes = 2 * kBytes;
  options.staging_bytes = kBytes;
  return options;
}

// Everything that a ring does with a device, and both ways of staging.
absl::Status use_everything(Device& device) {
  RETURN_IF_ERROR(device.memory_info().status());
  ASSIGN_OR_RETURN(const DeviceArena slot, device.allocate(3 * kBytes, "slot"));
  ASSIGN_OR_RETURN(const HostArena image,
                   device.allocate_host(3 * kBytes, "image"));
  ASSIGN_OR_RETURN(const StreamLease lease,
                   device.acquire_stream(StreamKind::kTransfer, "copy"));
  ASSIGN_OR_RETURN(const Event start, device.create_event(true));
  ASSIGN_OR_RETURN(const Event ready, device.create_event(true));
  const Stream copy = lease.get();
  const Stream compute = device.current_stream();
  RETURN_IF_ERROR(device.record(start, compute));
  RETURN_IF_ERROR(device.wait(copy, start));
  RETURN_IF_ERROR(device.copy_async(
      copy, {CopyKind::kHostToDevice, slot.data(), image.data(), 3 * kBytes}));
  RETURN_IF_ERROR(device.record(ready, copy));
  RETURN_IF_ERROR(device.wait(compute, ready));
  std::string elsewhere(static_cast<size_t>(3 * kBytes), 'e');
  RETURN_IF_ERROR(device.copy_async(copy, {CopyKind::kHostToDevice, slot.data(),
                                           elsewhere.data(), 3 * kBytes}));
  RETURN_IF_ERROR(device.copy_async(
      copy,
      {CopyKind::kDeviceToHost, elsewhere.data(), slot.data(), 3 * kBytes}));
  RETURN_IF_ERROR(device.synchronize(copy));
  RETURN_IF_ERROR(device.synchronize(ready));
  RETURN_IF_ERROR(device.query(ready).status());
  RETURN_IF_ERROR(device.elapsed(start, ready).status());
  return device.synchronize();
}

class CudaDeviceFaultTest : public testing::Test {
 protected:
  CudaDeviceFaultTest()
      : device_(*CudaDevice::create(small_options(), &api_, &torch_)) {}

  FakeCudaApi api_;
  FakeCudaTorch torch_;
  std::unique_ptr<CudaDevice> device_;
};

TEST_F(CudaDeviceFaultTest, NothingLeaksWhereverACallFails) {
  int failures = 0;
  int overcome = 0;
  for (int64_t nth = 1;; ++nth) {
    FakeCudaApi api;
    FakeCudaTorch torch;
    auto device = *CudaDevice::create(small_options(), &api, &torch);
    const int64_t before = api.all_calls();
    api.fail("", nth, cudaErrorNotSupported);
    const absl::Status status = use_everything(*device);
    const bool was_hit = api.all_calls() - before >= nth;
    (status.ok() ? overcome : failures) += static_cast<int>(was_hit);
    api.clear_faults();
    EXPECT_EQ(api.peek_at_last_error(), cudaSuccess) << nth;
    // The device works on. What a handle's destructor met may come first.
    (void)device->synchronize();
    EXPECT_TRUE(use_everything(*device).ok()) << nth;
    EXPECT_EQ(device->stats().device.bytes_in_use, 0) << nth;
    EXPECT_EQ(device->stats().host.bytes_in_use, 0) << nth;
    device.reset();
    // A call that gives back and fails leaves one thing, and no other.
    const std::string leaks = api.leaks();
    EXPECT_TRUE(leaks.empty() || (status.ok() && leaks.substr(0, 2) == "1 "))
        << nth << ": " << leaks;
    api.forget_registrations();
    if (!was_hit) break;
  }
  std::printf("%d calls failed, %d were overcome\n", failures, overcome);
  EXPECT_GT(failures, 40);
  // Of registering, and of giving back.
  EXPECT_GT(overcome, 2);
}

TEST_F(CudaDeviceFaultTest, AFailedDeviceStaysFailed) {
  for (int64_t nth = 1;; ++nth) {
    FakeCudaApi api;
    FakeCudaTorch torch;
    auto device = *CudaDevice::create(small_options(), &api, &torch);
    const int64_t before = api.all_calls();
    api.fail("", nth, cudaErrorIllegalAddress, /*sticky=*/true);
    (void)use_everything(*device);
    if (api.all_calls() - before < nth) break;
    const absl::Status first = device->synchronize();
    EXPECT_EQ(first.code(), absl::StatusCode::kInternal) << nth;
    EXPECT_THAT(std::string(first.message()), HasSubstr("the device failed: "))
        << nth;
    // Also when CUDA has forgotten.
    api.clear_faults();
    EXPECT_EQ(use_everything(*device), first) << nth;
    EXPECT_EQ(device->allocate(kBytes, "slot").status(), first);
    EXPECT_EQ(device->allocate_host(kBytes, "image").status(), first);
    EXPECT_EQ(device->create_event(false).status(), first);
    EXPECT_EQ(device->acquire_stream(StreamKind::kCompute, "c").status(),
              first);
    EXPECT_EQ(device->memory_info().status(), first);
    api.forget_registrations();
  }
}

TEST_F(CudaDeviceFaultTest, HandlesOfAFailedDeviceCanBeGivenBack) {
  std::optional<DeviceArena> slot = *device_->allocate(kBytes, "slot");
  std::optional<HostArena> image = *device_->allocate_host(kBytes, "image");
  std::optional<StreamLease> copy =
      *device_->acquire_stream(StreamKind::kTransfer, "copy");
  std::optional<Event> ready = *device_->create_event(false);
  api_.fail("event_record", 1, cudaErrorLaunchFailure, /*sticky=*/true);
  EXPECT_EQ(device_->record(*ready, copy->get()).code(),
            absl::StatusCode::kInternal);
  api_.clear_faults();
  slot.reset();
  ready.reset();
  copy.reset();
  EXPECT_TRUE(image->free().ok());
  image.reset();
  device_.reset();
  // CUDA has recovered, which changes nothing for the device; so all of it was.
  EXPECT_EQ(api_.leaks(), "");
}

// What a kernel did wrong comes out of the next call, whichever that is.
TEST_F(CudaDeviceFaultTest, AnAsynchronousErrorIsTheDevices) {
  const Event event = *device_->create_event(false);
  ASSERT_TRUE(device_->record(event, device_->current_stream()).ok());
  api_.fail("event_query", 1, cudaErrorIllegalAddress, /*sticky=*/true);
  const absl::Status status = device_->query(event).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("cudaErrorIllegalAddress"));
  EXPECT_EQ(device_->wait(device_->current_stream(), event), status);
}

// Also when somebody else, such as LibTorch, was the first to hear of
// it: so the worker asks whether its device has failed.
TEST_F(CudaDeviceFaultTest, MemoryInfoTellsOfAnErrorThatOthersMet) {
  EXPECT_TRUE(device_->memory_info().ok());
  api_.fail("device_synchronize", 1, cudaErrorIllegalAddress, /*sticky=*/true);
  EXPECT_EQ(api_.device_synchronize(), cudaErrorIllegalAddress);
  const absl::Status status = device_->memory_info().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("cudaErrorIllegalAddress"));
}

TEST_F(CudaDeviceFaultTest, SynchronizingTellsOfADestructorsErrorOnce) {
  for (const char* call :
       {"free", "stream_destroy", "event_destroy", "host_unregister"}) {
    api_.fail(call, 1, cudaErrorInvalidResourceHandle);
    ASSERT_TRUE(use_everything(*device_).ok()) << call;
    EXPECT_EQ(device_->synchronize().code(), absl::StatusCode::kInvalidArgument)
        << call;
    EXPECT_TRUE(device_->synchronize().ok()) << call;
  }
  api_.forget_registrations();
}

}  // namespace
}  // namespace ferry
