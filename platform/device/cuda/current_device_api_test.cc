// Which device the calls of a CudaDevice go to, from whatever thread they come,
// and whether threads that wait sleep.

#include "platform/device/cuda/current_device_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "platform/device/cuda/cuda_api.h"
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

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kBytes = 4096;
constexpr int kIndex = 1;

CudaDeviceOptions options_of(int index) {
  CudaDeviceOptions options;
  options.index = index;
  options.staging_bytes = kBytes;
  return options;
}

// GPU 1 of three, made by this thread.
class CurrentDeviceTest : public testing::Test {
 protected:
  CurrentDeviceTest() {
    api_.machine().devices = 3;
    torch_.api = &api_;
    device_ = *CudaDevice::create(options_of(kIndex), &api_, &torch_);
  }

  void TearDown() override {
    // The last owner of a device is anybody.
    std::thread([this] { device_.reset(); }).join();
    EXPECT_EQ(api_.leaks(), "");
    EXPECT_THAT(api_.misuses(), IsEmpty());
    EXPECT_THAT(api_.contexts(), ElementsAre(kIndex));
  }

  FakeCudaApi api_;
  FakeCudaTorch torch_;
  std::unique_ptr<CudaDevice> device_;
};

// As an engine's transport thread does: it is given handles, and works.
TEST_F(CurrentDeviceTest, AThreadThatIsGivenHandlesWorksOnTheirDevice) {
  const DeviceArena slot = *device_->allocate(kBytes, "slot");
  const HostArena image = *device_->allocate_host(kBytes, "image");
  const StreamLease lease =
      *device_->acquire_stream(StreamKind::kTransfer, "copy");
  const Event ready = *device_->create_event(false);
  std::string elsewhere(kBytes, 'e');
  std::thread transport([&] {
    const Stream copy = lease.get();
    absl::Status status = device_->copy_async(
        copy, {CopyKind::kHostToDevice, slot.data(), image.data(), kBytes});
    status.Update(device_->copy_async(
        copy,
        {CopyKind::kHostToDevice, slot.data(), elsewhere.data(), kBytes}));
    status.Update(device_->record(ready, copy));
    status.Update(device_->wait(device_->current_stream(), ready));
    status.Update(device_->query(ready).status());
    status.Update(device_->synchronize(ready));
    status.Update(device_->synchronize(copy));
    EXPECT_EQ(status, absl::OkStatus());
  });
  transport.join();
}

// A watchdog looks, whoever asks for memory asks, and so on: each call is the
// first one of a thread.
TEST_F(CurrentDeviceTest, AnyCallMayBeAThreadsFirstOne) {
  const auto on_new_thread = [](auto call) { std::thread(call).join(); };
  on_new_thread([&] { EXPECT_TRUE(device_->memory_info().ok()); });
  on_new_thread([&] { EXPECT_TRUE(device_->synchronize().ok()); });
  on_new_thread([&] { EXPECT_TRUE(device_->allocate(kBytes, "a").ok()); });
  on_new_thread([&] { EXPECT_TRUE(device_->allocate_host(kBytes, "h").ok()); });
  on_new_thread([&] { EXPECT_TRUE(device_->create_event(true).ok()); });
  on_new_thread([&] { device_->empty_cache(); });
  on_new_thread([&] {
    EXPECT_TRUE(device_->acquire_stream(StreamKind::kCompute, "c").ok());
  });
  on_new_thread([&] {
    EXPECT_TRUE(device_->use().ok());
    EXPECT_EQ(api_.current_device(), kIndex);
  });
}

TEST_F(CurrentDeviceTest, HandlesAreGivenBackByWhoeverDropsThem) {
  std::optional<DeviceArena> slot = *device_->allocate(kBytes, "slot");
  std::optional<HostArena> image = *device_->allocate_host(kBytes, "image");
  std::optional<StreamLease> copy =
      *device_->acquire_stream(StreamKind::kTransfer, "copy");
  std::optional<Event> ready = *device_->create_event(false);
  std::thread([&] { slot.reset(); }).join();
  std::thread([&] { image.reset(); }).join();
  std::thread([&] { copy.reset(); }).join();
  std::thread([&] { ready.reset(); }).join();
  EXPECT_EQ(api_.leaks(), "");
}

// What CUDA and LibTorch are asked for when it fails is asked on the device.
TEST_F(CurrentDeviceTest, AnErrorIsLookedAtOnItsDevice) {
  api_.fail("malloc", 1, cudaErrorMemoryAllocation);
  std::thread([&] {
    EXPECT_EQ(device_->allocate(kBytes, "slot").status().code(),
              absl::StatusCode::kResourceExhausted);
  }).join();
}

// And no thread sets it again and again.
TEST_F(CurrentDeviceTest, AThreadSetsItOnce) {
  const Event ready = *device_->create_event(false);
  const int64_t before = api_.calls("set_device");
  std::thread([&] {
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(device_->record(ready, device_->current_stream()).ok());
    }
  }).join();
  EXPECT_EQ(api_.calls("set_device"), before + 1);
}

TEST(CurrentDeviceApiTest, DevicesOfOneThreadTakeTurns) {
  FakeCudaApi api;
  api.machine().devices = 2;
  FakeCudaTorch torch;
  const auto first = *CudaDevice::create(options_of(0), &api, &torch);
  const auto second = *CudaDevice::create(options_of(1), &api, &torch);
  const Event of_first = *first->create_event(false);
  const Event of_second = *second->create_event(false);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(first->record(of_first, first->current_stream()).ok());
    EXPECT_TRUE(second->record(of_second, second->current_stream()).ok());
  }
  EXPECT_THAT(api.misuses(), IsEmpty());
}

TEST(CurrentDeviceApiTest, NothingIsTriedOnAnotherDevice) {
  FakeCudaApi cuda;
  CurrentDeviceApi api(&cuda, 0);
  cuda.fail("set_device", 1, cudaErrorDevicesUnavailable);
  void* data = nullptr;
  EXPECT_EQ(api.malloc(&data, kBytes), cudaErrorDevicesUnavailable);
  EXPECT_EQ(cuda.calls("malloc"), 0);
  EXPECT_EQ(api.malloc(&data, kBytes), cudaSuccess);
  EXPECT_EQ(api.free(data), cudaSuccess);
}

// --- That the fake would find it

TEST(FakeCudaApiTest, TellsOfWorkOnAThreadWithoutADevice) {
  FakeCudaApi api;
  api.machine().devices = 2;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(api.set_device(1), cudaSuccess);
  ASSERT_EQ(api.event_create_with_flags(&event, cudaEventBlockingSync),
            cudaSuccess);
  EXPECT_THAT(api.contexts(), ElementsAre(1));
  std::thread([&] {
    EXPECT_EQ(api.event_query(event), cudaErrorInvalidResourceHandle);
  }).join();
  EXPECT_THAT(api.misuses(),
              ElementsAre("event_query on a thread without a device"));
  EXPECT_THAT(api.contexts(), ElementsAre(0, 1));
  EXPECT_EQ(api.event_destroy(event), cudaSuccess);
}

TEST(FakeCudaApiTest, TellsOfWaitsThatSpin) {
  FakeCudaApi api;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(api.set_device(0), cudaSuccess);
  ASSERT_EQ(api.event_create_with_flags(&event, cudaEventDisableTiming),
            cudaSuccess);
  EXPECT_EQ(api.event_synchronize(event), cudaSuccess);
  EXPECT_EQ(api.stream_synchronize(nullptr), cudaSuccess);
  EXPECT_EQ(api.device_synchronize(), cudaSuccess);
  EXPECT_THAT(api.misuses(),
              ElementsAre("event_synchronize spins", "stream_synchronize spins",
                          "device_synchronize spins"));
  EXPECT_EQ(api.event_destroy(event), cudaSuccess);
}

TEST(FakeCudaApiTest, KeepsLastErrorsByThread) {
  FakeCudaApi api;
  ASSERT_EQ(api.set_device(0), cudaSuccess);
  EXPECT_EQ(api.free(&api), cudaErrorInvalidValue);
  std::thread([&] { EXPECT_EQ(api.get_last_error(), cudaSuccess); }).join();
  EXPECT_EQ(api.get_last_error(), cudaErrorInvalidValue);
  EXPECT_EQ(api.get_last_error(), cudaSuccess);
}

TEST(FakeCudaApiTest, RegistersWholePagesOnce) {
  FakeCudaApi api;
  ASSERT_EQ(api.set_device(0), cudaSuccess);
  alignas(kBytes) static char pages[4 * kBytes];
  ASSERT_EQ(api.host_register(pages + kBytes, 2 * kBytes, 0), cudaSuccess);
  for (const auto& [offset, bytes] :
       {std::pair<int64_t, int64_t>{0, 2}, {1, 1}, {2, 2}, {0, 4}}) {
    EXPECT_EQ(api.host_register(pages + offset * kBytes,
                                static_cast<size_t>(bytes * kBytes), 0),
              cudaErrorHostMemoryAlreadyRegistered)
        << offset << " " << bytes;
  }
  EXPECT_EQ(api.host_register(pages + 1, kBytes, 0), cudaErrorInvalidValue);
  EXPECT_EQ(api.host_register(pages, kBytes - 1, 0), cudaErrorInvalidValue);
  EXPECT_EQ(api.host_register(pages, kBytes, 0), cudaSuccess);
  EXPECT_EQ(api.host_register(pages + 3 * kBytes, kBytes, 0), cudaSuccess);
  api.forget_registrations();
}

}  // namespace
}  // namespace ferry
