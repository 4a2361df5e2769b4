// What the checker of orders finds, and what it leaves alone.

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/event.h"
#include "platform/device/host_arena.h"
#include "platform/device/resource_owner.h"
#include "platform/device/simulated/operation_log.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/stream.h"
#include "platform/device/stream_lease.h"

namespace ferry {
namespace {

constexpr int64_t kBytes = 4096;

SimulatedDeviceOptions checked() {
  SimulatedDeviceOptions options;
  options.latency = absl::ZeroDuration();
  options.check = true;
  return options;
}

class OrderTest : public testing::Test {
 protected:
  OrderTest() {
    slot_ = *device_.allocate(kBytes, "slot");
    image_ = *device_.allocate_host(kBytes, "image");
    copy_lease_ = *device_.acquire_stream(StreamKind::kTransfer, "copy");
    other_lease_ = *device_.acquire_stream(StreamKind::kTransfer, "other");
    copy_ = copy_lease_.get();
    other_ = other_lease_.get();
    compute_ = device_.current_stream();
    event_ = *device_.create_event(false);
  }

  // Arenas are freed in order, whatever the test did.
  ~OrderTest() override { EXPECT_TRUE(device_.synchronize().ok()); }

  absl::Status load(Stream stream, int64_t bytes = kBytes) {
    return device_.copy_async(
        stream, {CopyKind::kHostToDevice, slot_.data(), image_.data(), bytes});
  }
  absl::Status store(Stream stream) {
    return device_.copy_async(
        stream, {CopyKind::kDeviceToHost, image_.data(), slot_.data(), kBytes});
  }
  absl::Status read(Stream stream, int64_t offset = 0, int64_t bytes = kBytes) {
    return device_.mark_access(stream, AccessKind::kRead, slot_.data() + offset,
                               bytes);
  }
  // Orders what `after` is given from now on after what `before` was given.
  void order(Stream before, Stream after) {
    ASSERT_TRUE(device_.record(event_, before).ok());
    ASSERT_TRUE(device_.wait(after, event_).ok());
  }

  void expect_found(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_EQ(device_.violations().size(), 1u);
  }
  void expect_nothing_found() {
    for (const std::string& text : device_.violations()) ADD_FAILURE() << text;
  }

  SimulatedDevice device_{checked(), Clock::real()};
  DeviceArena slot_;
  HostArena image_;
  StreamLease copy_lease_;
  StreamLease other_lease_;
  Stream copy_;
  Stream other_;
  Stream compute_;
  Event event_;
};

TEST_F(OrderTest, ComputeThatDoesNotWaitForTheCopyIsFoundAndBothAreNamed) {
  ASSERT_TRUE(load(copy_).ok());
  const absl::Status status = read(compute_);
  expect_found(status);
  EXPECT_EQ(status.message(),
            "simulated device: #4 read by compute of bytes [0, 4096) of device "
            "arena \"slot\" on stream compute (1) is not ordered after #3 copy "
            "to them on stream copy (2); wait for an event that is recorded "
            "after it");
}

TEST_F(OrderTest, TimeOrdersNothing) {
  device_.operations().start(16);
  ASSERT_TRUE(load(copy_).ok());
  const auto has_ended = [this] {
    return device_.operations().entries().back().phase ==
           LoggedOperation::Phase::kEnded;
  };
  while (!has_ended()) std::this_thread::yield();
  // The bytes are there, but nobody waited for them.
  expect_found(read(compute_));
}

TEST_F(OrderTest, ComputeThatWaitsIsRight) {
  ASSERT_TRUE(load(copy_).ok());
  order(copy_, compute_);
  EXPECT_TRUE(read(compute_).ok());
  expect_nothing_found();
}

TEST_F(OrderTest, OrderIsTransitive) {
  ASSERT_TRUE(load(copy_).ok());
  order(copy_, other_);
  order(other_, compute_);
  EXPECT_TRUE(read(compute_).ok());
  expect_nothing_found();
}

TEST_F(OrderTest, ACopyThatDoesNotWaitForComputeIsFound) {
  ASSERT_TRUE(load(copy_).ok());
  order(copy_, compute_);
  ASSERT_TRUE(read(compute_).ok());
  // The kernel has run on this very thread: that orders nothing.
  expect_found(load(copy_));
}

TEST_F(OrderTest, ACopyThatWaitsForComputeIsRight) {
  ASSERT_TRUE(load(copy_).ok());
  order(copy_, compute_);
  ASSERT_TRUE(read(compute_).ok());
  order(compute_, copy_);
  EXPECT_TRUE(load(copy_).ok());
  expect_nothing_found();
}

TEST_F(OrderTest, ARecordBeforeTheLastUseIsTooEarly) {
  ASSERT_TRUE(load(copy_).ok());
  order(copy_, compute_);
  ASSERT_TRUE(read(compute_).ok());
  order(compute_, copy_);
  ASSERT_TRUE(read(compute_).ok());
  expect_found(load(copy_));
}

TEST_F(OrderTest, AWaitForAnOlderRecordIsNotEnough) {
  ASSERT_TRUE(load(copy_).ok());
  ASSERT_TRUE(device_.record(event_, copy_).ok());
  ASSERT_TRUE(load(copy_).ok());
  ASSERT_TRUE(device_.wait(compute_, event_).ok());
  expect_found(read(compute_));
}

TEST_F(OrderTest, ALaterRecordDoesNotChangeWhatAWaitCaptured) {
  ASSERT_TRUE(load(copy_).ok());
  order(copy_, compute_);
  ASSERT_TRUE(device_.record(event_, other_).ok());
  EXPECT_TRUE(read(compute_).ok());
  expect_nothing_found();
}

TEST_F(OrderTest, AnEventThatWasNeverRecordedIsAnError) {
  const absl::Status status = device_.wait(compute_, event_);
  expect_found(status);
  EXPECT_NE(status.message().find("was never recorded"), std::string::npos);
  EXPECT_FALSE(device_.query(event_).ok());
  EXPECT_FALSE(device_.synchronize(event_).ok());
}

TEST_F(OrderTest, NoEventIsAnError) {
  EXPECT_EQ(device_.record(Event(), compute_).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_.wait(compute_, Event()).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(OrderTest, OneStreamNeedsNoEvents) {
  ASSERT_TRUE(load(copy_).ok());
  ASSERT_TRUE(read(copy_).ok());
  ASSERT_TRUE(device_.discard(copy_, slot_.data(), kBytes).ok());
  EXPECT_TRUE(load(copy_).ok());
  expect_nothing_found();
}

TEST_F(OrderTest, TheHostJoinsByEachWayToSynchronize) {
  for (int way = 0; way < 4; ++way) {
    ASSERT_TRUE(load(copy_).ok());
    ASSERT_TRUE(device_.record(event_, copy_).ok());
    switch (way) {
      case 0:
        ASSERT_TRUE(device_.synchronize(event_).ok());
        break;
      case 1:
        ASSERT_TRUE(device_.synchronize(copy_).ok());
        break;
      case 2:
        ASSERT_TRUE(device_.synchronize().ok());
        break;
      default:
        while (!*device_.query(event_)) {
        }
    }
    // Ordered after the host, and so after the copy.
    EXPECT_TRUE(read(compute_).ok()) << way;
    order(compute_, copy_);
  }
  expect_nothing_found();
}

TEST_F(OrderTest, SynchronizingAnotherStreamOrdersNothing) {
  ASSERT_TRUE(load(copy_).ok());
  ASSERT_TRUE(device_.synchronize(other_).ok());
  expect_found(read(compute_));
}

TEST_F(OrderTest, OverlapsCountByByte) {
  ASSERT_TRUE(load(other_, kBytes).ok());
  order(other_, compute_);
  ASSERT_TRUE(load(other_, 100).ok());
  EXPECT_TRUE(read(compute_, 100, 10).ok());
  expect_nothing_found();
  const absl::Status status = read(compute_, 50, 100);
  expect_found(status);
  EXPECT_NE(status.message().find("bytes [50, 100) of device arena \"slot\""),
            std::string::npos)
      << status;
}

TEST_F(OrderTest, ReadsOfSeveralStreamsAreRight) {
  ASSERT_TRUE(load(copy_).ok());
  order(copy_, compute_);
  ASSERT_TRUE(device_.wait(other_, event_).ok());
  EXPECT_TRUE(read(compute_).ok());
  EXPECT_TRUE(read(other_).ok());
  // Two copies of one image, too.
  const DeviceArena second = *device_.allocate(kBytes, "second slot");
  EXPECT_TRUE(device_
                  .copy_async(other_, {CopyKind::kHostToDevice, second.data(),
                                       image_.data(), kBytes})
                  .ok());
  expect_nothing_found();
  ASSERT_TRUE(device_.synchronize().ok());
}

TEST_F(OrderTest, CopiesInsideOfTheDeviceReadAndWrite) {
  const DeviceArena second = *device_.allocate(kBytes, "second slot");
  ASSERT_TRUE(load(copy_).ok());
  const Copy copy = {CopyKind::kDeviceToDevice, second.data(), slot_.data(),
                     kBytes};
  expect_found(device_.copy_async(compute_, copy));
  order(copy_, compute_);
  EXPECT_TRUE(device_.copy_async(compute_, copy).ok());
  EXPECT_TRUE(
      device_.mark_access(compute_, AccessKind::kRead, second.data(), kBytes)
          .ok());
  ASSERT_TRUE(device_.synchronize().ok());
}

TEST_F(OrderTest, AKernelsWriteIsAWrite) {
  ASSERT_TRUE(load(copy_).ok());
  order(copy_, compute_);
  order(copy_, other_);
  ASSERT_TRUE(read(other_).ok());
  expect_found(
      device_.mark_access(compute_, AccessKind::kWrite, slot_.data(), kBytes));
}

TEST_F(OrderTest, BytesThatNobodyWroteAreFound) {
  const absl::Status status = read(compute_);
  expect_found(status);
  EXPECT_EQ(status.message(),
            "simulated device: #3 read by compute of bytes [0, 4096) of device "
            "arena \"slot\" on stream compute (1) finds no content: #1 "
            "allocation of them on the host left none");
}

TEST_F(OrderTest, AUseAfterADiscardIsFound) {
  ASSERT_TRUE(load(compute_).ok());
  ASSERT_TRUE(device_.discard(compute_, slot_.data(), kBytes).ok());
  expect_found(read(compute_));
}

TEST_F(OrderTest, ADiscardThatIsNotOrderedIsFound) {
  ASSERT_TRUE(load(copy_).ok());
  expect_found(device_.discard(compute_, slot_.data(), kBytes));
}

TEST_F(OrderTest, TheHostMustNotWriteWhatIsBeingCopied) {
  ASSERT_TRUE(load(copy_).ok());
  const absl::Status status =
      image_.access(AccessKind::kWrite, 0, kBytes).status();
  expect_found(status);
  EXPECT_NE(status.message().find("synchronize with that stream first"),
            std::string::npos);
}

TEST_F(OrderTest, ACopyOfWhatTheHostIsWritingIsFoundWhenItEnds) {
  HostAccess access = *image_.access(AccessKind::kWrite, 0, kBytes);
  ASSERT_TRUE(load(copy_).ok());
  expect_found(access.end());
}

TEST_F(OrderTest, TheHostMayReadWhatIsBeingCopiedToTheDevice) {
  HostAccess access = *image_.access(AccessKind::kRead, 0, kBytes);
  ASSERT_TRUE(load(copy_).ok());
  EXPECT_TRUE(access.end().ok());
  expect_nothing_found();
}

TEST_F(OrderTest, TheHostMustWaitForWhatIsCopiedToIt) {
  ASSERT_TRUE(load(copy_).ok());
  ASSERT_TRUE(store(copy_).ok());
  expect_found(image_.access(AccessKind::kRead, 0, kBytes).status());
  ASSERT_TRUE(device_.synchronize(copy_).ok());
  EXPECT_TRUE(image_.access(AccessKind::kRead, 0, kBytes).ok());
}

TEST_F(OrderTest, PageableMemoryIsThereWhenTheCallReturns) {
  std::vector<char> bytes(kBytes);
  ASSERT_TRUE(load(copy_).ok());
  ASSERT_TRUE(device_
                  .copy_async(copy_, {CopyKind::kDeviceToHost, bytes.data(),
                                      slot_.data(), kBytes})
                  .ok());
  // So the host, and what it starts, comes after it.
  EXPECT_TRUE(read(compute_).ok());
  expect_nothing_found();
}

TEST_F(OrderTest, APageableSourceDoesNotOrderTheArrival) {
  const std::vector<char> bytes(kBytes);
  ASSERT_TRUE(device_
                  .copy_async(copy_, {CopyKind::kHostToDevice, slot_.data(),
                                      bytes.data(), kBytes})
                  .ok());
  expect_found(read(compute_));
}

TEST_F(OrderTest, FreeingWhatIsInUseIsFound) {
  ASSERT_TRUE(load(copy_).ok());
  const absl::Status status = slot_.free();
  expect_found(status);
  EXPECT_NE(status.message().find("free of bytes [0, 4096) of device arena"),
            std::string::npos);
  EXPECT_EQ(slot_.data(), nullptr);
}

TEST_F(OrderTest, FreeingAnImageInUseIsFound) {
  ASSERT_TRUE(load(copy_).ok());
  expect_found(image_.free());
}

TEST_F(OrderTest, WhatADestructorFindsComesOutOnce) {
  ASSERT_TRUE(load(copy_).ok());
  { const DeviceArena gone = std::move(slot_); }
  expect_found(device_.synchronize());
  EXPECT_TRUE(device_.synchronize().ok());
}

TEST_F(OrderTest, FreeingAfterSynchronizingIsRight) {
  ASSERT_TRUE(load(copy_).ok());
  ASSERT_TRUE(device_.synchronize(copy_).ok());
  EXPECT_TRUE(slot_.free().ok());
  EXPECT_TRUE(image_.free().ok());
  expect_nothing_found();
}

TEST_F(OrderTest, UseOfFreedMemoryIsFound) {
  char* const data = slot_.data();
  ASSERT_TRUE(slot_.free().ok());
  expect_found(device_.mark_access(compute_, AccessKind::kRead, data, kBytes));
}

TEST_F(OrderTest, MemoryThatIsAllocatedAgainHasNoPast) {
  ASSERT_TRUE(load(copy_).ok());
  ASSERT_TRUE(device_.synchronize().ok());
  char* const data = slot_.data();
  ASSERT_TRUE(slot_.free().ok());
  slot_ = *device_.allocate(kBytes, "slot");
  ASSERT_EQ(slot_.data(), data);
  EXPECT_TRUE(load(other_).ok());
  expect_nothing_found();
}

TEST_F(OrderTest, AFailedCallHasDoneNothing) {
  ASSERT_TRUE(load(copy_).ok());
  order(copy_, compute_);
  ASSERT_TRUE(read(compute_).ok());
  expect_found(load(copy_));
  // The copy was not made: the bytes are still those of the first one.
  EXPECT_TRUE(read(compute_).ok());
  EXPECT_EQ(device_.stats().host_to_device.count, 1);
}

TEST_F(OrderTest, WorkDeclaresWhatItTouches) {
  ASSERT_TRUE(load(copy_).ok());
  const SimulatedDevice::Use use = {AccessKind::kRead, slot_.data(), kBytes};
  const auto nothing = [] { return absl::OkStatus(); };
  expect_found(device_.launch(other_, {use}, nothing));
  order(copy_, other_);
  EXPECT_TRUE(device_.launch(other_, {use}, nothing).ok());
}

TEST(UncheckedDevice, LeavesEverythingAlone) {
  SimulatedDeviceOptions options = checked();
  options.check = false;
  SimulatedDevice device(options, Clock::real());
  const DeviceArena slot = *device.allocate(kBytes, "slot");
  const HostArena image = *device.allocate_host(kBytes, "image");
  const StreamLease copy = *device.acquire_stream(StreamKind::kTransfer, "c");
  const Stream compute = device.current_stream();
  ASSERT_TRUE(device
                  .copy_async(copy.get(), {CopyKind::kHostToDevice, slot.data(),
                                           image.data(), kBytes})
                  .ok());
  EXPECT_TRUE(
      device.mark_access(compute, AccessKind::kRead, slot.data(), kBytes).ok());
  EXPECT_TRUE(device.discard(compute, slot.data(), kBytes).ok());
  EXPECT_TRUE(device.violations().empty());
}

}  // namespace
}  // namespace ferry
