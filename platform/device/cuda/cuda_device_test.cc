#include "platform/device/cuda/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/cuda/testing/fake_cuda_api.h"
#include "platform/device/cuda/testing/fake_cuda_torch.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/event.h"
#include "platform/device/host_arena.h"
#include "platform/device/stream.h"
#include "platform/device/stream_guard.h"
#include "platform/device/stream_lease.h"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kBytes = 4096;

class CudaDeviceTest : public testing::Test {
 protected:
  explicit CudaDeviceTest(
      FakeCudaApi::Execution execution = FakeCudaApi::Execution::kEager)
      : api_(execution),
        device_(*CudaDevice::create(CudaDeviceOptions(), &api_, &torch_)) {}

  void TearDown() override {
    device_.reset();
    EXPECT_EQ(api_.leaks(), "");
    EXPECT_EQ(api_.pageable_copies(), 0);
    EXPECT_THAT(api_.misuses(), IsEmpty());
  }

  FakeCudaApi api_;
  FakeCudaTorch torch_;
  std::unique_ptr<CudaDevice> device_;
};

class LazyCudaDeviceTest : public CudaDeviceTest {
 protected:
  LazyCudaDeviceTest() : CudaDeviceTest(FakeCudaApi::Execution::kLazy) {}
};

TEST_F(CudaDeviceTest, MemoryIsWhatCudaSays) {
  const auto before = device_->memory_info();
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(before->total_bytes, 1 << 30);
  EXPECT_EQ(before->free_bytes, 1 << 30);
  const auto arena = device_->allocate(1 << 20, "slot");
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_EQ(arena->bytes(), 1 << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena->data()) % 256, 0u);
  EXPECT_EQ(device_->memory_info()->free_bytes, (1 << 30) - (1 << 20));
  const DeviceStats stats = device_->stats();
  EXPECT_EQ(stats.device.bytes_in_use, device_->allocation_granularity());
  EXPECT_EQ(stats.device.allocations, 1);
}

TEST_F(CudaDeviceTest, TooLittleMemoryIsTriedOnceAndSaysHowMuchThereIs) {
  const absl::Status status =
      device_->allocate(int64_t{2} << 30, "slots of transformer").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("\"slots of transformer\" needs 2147483648 bytes, and "
                        "1073741824 of 1073741824 are free"));
  EXPECT_EQ(api_.calls("malloc"), 1);
  EXPECT_EQ(torch_.emptied, 0);
  // No later call reports it.
  EXPECT_EQ(api_.peek_at_last_error(), cudaSuccess);
  EXPECT_TRUE(device_->allocate(kBytes, "slot").ok());
}

TEST_F(CudaDeviceTest, RefusesSizesThatAreNone) {
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}}) {
    EXPECT_EQ(device_->allocate(bytes, "none").status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(device_->allocate_host(bytes, "none").status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(api_.calls("malloc"), 0);
}

TEST_F(CudaDeviceTest, TransfersGoBeforeComputing) {
  const auto copy = device_->acquire_stream(StreamKind::kTransfer, "copy");
  const auto compute = device_->acquire_stream(StreamKind::kCompute, "compute");
  ASSERT_TRUE(copy.ok() && compute.ok());
  const std::vector<cudaStream_t> streams = api_.streams();
  ASSERT_EQ(streams.size(), 2u);
  EXPECT_EQ(api_.priority(streams[0]), -5);
  EXPECT_EQ(api_.priority(streams[1]), 0);
}

TEST_F(CudaDeviceTest, TheCurrentStreamIsLibTorchs) {
  const StreamLease lease =
      *device_->acquire_stream(StreamKind::kCompute, "compute");
  EXPECT_EQ(device_->current_stream().id, 0);
  {
    const StreamGuard guard(*device_, lease.get());
    EXPECT_EQ(torch_.current, lease.get().id);
    EXPECT_EQ(device_->current_stream(), lease.get());
  }
  EXPECT_EQ(torch_.current, 0);
}

TEST_F(CudaDeviceTest, GivesLibTorchsCacheBack) {
  device_->empty_cache();
  EXPECT_EQ(torch_.emptied, 1);
}

TEST_F(CudaDeviceTest, CopiesThereAndBack) {
  const DeviceArena arena = *device_->allocate(kBytes, "slot");
  const HostArena image = *device_->allocate_host(2 * kBytes, "image");
  const StreamLease copy =
      *device_->acquire_stream(StreamKind::kTransfer, "copy");
  {
    const auto access = image.access(AccessKind::kWrite, 0, kBytes);
    ASSERT_TRUE(access.ok()) << access.status();
    std::memset(access->data(), 7, kBytes);
  }
  api_.start_log();
  ASSERT_TRUE(device_
                  ->copy_async(copy.get(), {CopyKind::kHostToDevice,
                                            arena.data(), image.data(), kBytes})
                  .ok());
  ASSERT_TRUE(device_
                  ->copy_async(copy.get(),
                               {CopyKind::kDeviceToHost, image.data() + kBytes,
                                arena.data(), kBytes})
                  .ok());
  EXPECT_THAT(api_.log(), ElementsAre("memcpy_async 4096 h2d stream1",
                                      "memcpy_async 4096 d2h stream1"));
  ASSERT_TRUE(device_->synchronize(copy.get()).ok());
  EXPECT_EQ(image.data()[2 * kBytes - 1], 7);
  const DeviceStats stats = device_->stats();
  EXPECT_EQ(stats.host_to_device.bytes, kBytes);
  EXPECT_EQ(stats.device_to_host.count, 1);
  EXPECT_EQ(stats.pageable.count, 0);
  EXPECT_EQ(stats.staged.count, 0);
}

TEST_F(CudaDeviceTest, CopiesOnTheDevice) {
  const DeviceArena arena = *device_->allocate(2 * kBytes, "slot");
  std::memset(arena.data(), 3, kBytes);
  EXPECT_TRUE(device_
                  ->copy_async(device_->current_stream(),
                               {CopyKind::kDeviceToDevice,
                                arena.data() + kBytes, arena.data(), kBytes})
                  .ok());
  EXPECT_EQ(arena.data()[2 * kBytes - 1], 3);
  EXPECT_EQ(device_->stats().device_to_device.bytes, kBytes);
}

TEST_F(CudaDeviceTest, RefusesCopiesThatAreNone) {
  const DeviceArena arena = *device_->allocate(kBytes, "slot");
  const HostArena image = *device_->allocate_host(kBytes, "image");
  const Stream stream = device_->current_stream();
  EXPECT_TRUE(device_
                  ->copy_async(stream, {CopyKind::kHostToDevice, arena.data(),
                                        image.data(), 0})
                  .ok());
  EXPECT_EQ(device_
                ->copy_async(stream, {CopyKind::kHostToDevice, arena.data(),
                                      image.data(), -1})
                .code(),
            absl::StatusCode::kInvalidArgument);
  const absl::Status across = device_->copy_async(
      stream,
      {CopyKind::kHostToDevice, arena.data(), image.data() + 1, kBytes});
  EXPECT_EQ(across.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(across.message()), HasSubstr("end outside of it"));
  EXPECT_EQ(api_.calls("memcpy_async"), 0);
}

TEST_F(CudaDeviceTest, AWaitForWhatWasNeverRecordedIsAnError) {
  const Event event = *device_->create_event(false);
  const Stream stream = device_->current_stream();
  const absl::Status status = device_->wait(stream, event);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("never recorded"));
  EXPECT_EQ(device_->query(event).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(device_->synchronize(event).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(device_->wait(stream, Event()).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->record(Event(), stream).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(api_.calls("stream_wait_event"), 0);
}

TEST_F(CudaDeviceTest, MeasuresBetweenTimedEvents) {
  const Event start = *device_->create_event(true);
  const Event end = *device_->create_event(true);
  const Event untimed = *device_->create_event(false);
  for (const Event* event : {&start, &end, &untimed}) {
    ASSERT_TRUE(device_->record(*event, device_->current_stream()).ok());
  }
  const auto elapsed = device_->elapsed(start, end);
  ASSERT_TRUE(elapsed.ok()) << elapsed.status();
  EXPECT_EQ(*elapsed, absl::Milliseconds(1.5));
  EXPECT_THAT(std::string(device_->elapsed(start, untimed).status().message()),
              HasSubstr("the second event is not a timed one"));
  EXPECT_EQ(api_.calls("event_elapsed_time"), 1);
}

TEST_F(LazyCudaDeviceTest, ATimeThatIsNotThereYetIsNoError) {
  const Event start = *device_->create_event(true);
  const Event end = *device_->create_event(true);
  for (const Event* event : {&start, &end}) {
    ASSERT_TRUE(device_->record(*event, device_->current_stream()).ok());
  }
  EXPECT_EQ(*device_->elapsed(start, end), std::nullopt);
  EXPECT_EQ(api_.get_last_error(), cudaSuccess);
  ASSERT_TRUE(device_->synchronize(end).ok());
  EXPECT_EQ(*device_->elapsed(start, end), absl::Milliseconds(1.5));
}

TEST_F(LazyCudaDeviceTest, AQueryThatIsNotReadyIsNoError) {
  const StreamLease copy =
      *device_->acquire_stream(StreamKind::kTransfer, "copy");
  const Event event = *device_->create_event(false);
  ASSERT_TRUE(device_->record(event, copy.get()).ok());
  const auto query = device_->query(event);
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_FALSE(*query);
  EXPECT_EQ(api_.peek_at_last_error(), cudaSuccess);
  ASSERT_TRUE(device_->synchronize(event).ok());
  EXPECT_TRUE(*device_->query(event));
}

// Compute waits for the copy, and the copy for the slot's last use.
TEST_F(LazyCudaDeviceTest, EventsOrderStreams) {
  const DeviceArena slot = *device_->allocate(2 * kBytes, "slot and result");
  HostArena images = *device_->allocate_host(2 * kBytes, "images");
  std::memset(images.data(), 1, kBytes);
  std::memset(images.data() + kBytes, 2, kBytes);
  const StreamLease copy =
      *device_->acquire_stream(StreamKind::kTransfer, "copy");
  const StreamLease compute =
      *device_->acquire_stream(StreamKind::kCompute, "compute");
  const Event ready = *device_->create_event(false);
  const Event used = *device_->create_event(false);
  for (int block = 0; block < 2; ++block) {
    if (block > 0) ASSERT_TRUE(device_->wait(copy.get(), used).ok());
    ASSERT_TRUE(
        device_
            ->copy_async(copy.get(), {CopyKind::kHostToDevice, slot.data(),
                                      images.data() + block * kBytes, kBytes})
            .ok());
    ASSERT_TRUE(device_->record(ready, copy.get()).ok());
    if (block > 0) break;
    ASSERT_TRUE(device_->wait(compute.get(), ready).ok());
    ASSERT_TRUE(device_
                    ->copy_async(compute.get(),
                                 {CopyKind::kDeviceToDevice,
                                  slot.data() + kBytes, slot.data(), kBytes})
                    .ok());
    ASSERT_TRUE(device_->record(used, compute.get()).ok());
  }
  ASSERT_TRUE(device_->synchronize(copy.get()).ok());
  EXPECT_EQ(slot.data()[0], 2);
  EXPECT_EQ(slot.data()[kBytes], 1);
  ASSERT_TRUE(images.free().ok());
}

TEST_F(CudaDeviceTest, WhatTheHardwareFindsOutCostsNothing) {
  const DeviceArena slot = *device_->allocate(kBytes, "slot");
  const int64_t before = api_.all_calls();
  const Stream stream = device_->current_stream();
  EXPECT_TRUE(
      device_->mark_access(stream, AccessKind::kRead, slot.data(), kBytes)
          .ok());
  EXPECT_TRUE(device_->discard(stream, slot.data(), kBytes).ok());
  EXPECT_TRUE(device_->audit(slot.data(), kBytes).ok());
  EXPECT_EQ(api_.all_calls(), before);
}

}  // namespace
}  // namespace ferry
