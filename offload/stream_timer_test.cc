#include "offload/stream_timer.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/host_arena.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/stream_lease.h"

namespace ferry {
namespace {

constexpr int64_t kBytes = 1'000'000;
constexpr absl::Duration kCopyTime = absl::Milliseconds(1);

SimulatedDeviceOptions byte_a_nanosecond() {
  SimulatedDeviceOptions options;
  options.h2d_gbps = 1;
  options.latency = absl::ZeroDuration();
  options.check = true;
  return options;
}

class StreamTimerTest : public testing::Test {
 protected:
  StreamTimerTest() : device_(byte_a_nanosecond(), Clock::real()) {}
  ~StreamTimerTest() override {
    EXPECT_EQ(device_.synchronize(), absl::OkStatus());
  }

  void copy() {
    ASSERT_EQ(device_.copy_async(copy_, {CopyKind::kHostToDevice, slot_.data(),
                                         image_.data(), kBytes}),
              absl::OkStatus());
  }

  SimulatedDevice device_;
  DeviceArena slot_ = *device_.allocate(kBytes, "slot");
  HostArena image_ = *device_.allocate_host(kBytes, "image");
  StreamLease lease_ = *device_.acquire_stream(StreamKind::kTransfer, "copy");
  const Stream copy_ = lease_.get();
};

TEST_F(StreamTimerTest, AddsUpWhatEndedAndDoesNotWaitForIt) {
  StreamTimer timer = *StreamTimer::create(device_, 2);
  absl::Duration longest;
  for (int64_t piece = 1; piece <= 5; ++piece) {
    const absl::Duration start = Clock::real().monotonic();
    ASSERT_EQ(timer.begin(copy_), absl::OkStatus());
    copy();
    ASSERT_EQ(timer.end(copy_, kBytes), absl::OkStatus());
    ASSERT_EQ(device_.synchronize(copy_), absl::OkStatus());
    longest += Clock::real().monotonic() - start;
    // Between pieces nothing counts.
    copy();
    EXPECT_LE(timer.amount(), (piece - 1) * kBytes);
    ASSERT_EQ(timer.collect(), absl::OkStatus());
    EXPECT_EQ(timer.amount(), piece * kBytes);
    EXPECT_GE(timer.time(), static_cast<double>(piece) * kCopyTime);
    ASSERT_EQ(device_.synchronize(copy_), absl::OkStatus());
  }
  EXPECT_LE(timer.time(), longest);
}

TEST_F(StreamTimerTest, MoreThanItHoldsAreNotTimed) {
  StreamTimer timer = *StreamTimer::create(device_, 2);
  device_.faults().slow_copy(1, absl::Milliseconds(200));
  for (int piece = 0; piece < 6; ++piece) {
    ASSERT_EQ(timer.begin(copy_), absl::OkStatus());
    copy();
    ASSERT_EQ(timer.end(copy_, kBytes), absl::OkStatus());
  }
  ASSERT_EQ(device_.synchronize(copy_), absl::OkStatus());
  ASSERT_EQ(timer.collect(), absl::OkStatus());
  EXPECT_EQ(timer.amount(), 2 * kBytes);
  // They are free again.
  ASSERT_EQ(timer.begin(copy_), absl::OkStatus());
  ASSERT_EQ(timer.end(copy_, 1), absl::OkStatus());
  ASSERT_EQ(device_.synchronize(copy_), absl::OkStatus());
  ASSERT_EQ(timer.collect(), absl::OkStatus());
  EXPECT_EQ(timer.amount(), 2 * kBytes + 1);
}

TEST_F(StreamTimerTest, APieceWithoutAnEndIsForgotten) {
  StreamTimer timer = *StreamTimer::create(device_, 1);
  ASSERT_EQ(timer.begin(copy_), absl::OkStatus());
  copy();
  ASSERT_EQ(timer.begin(copy_), absl::OkStatus());
  ASSERT_EQ(timer.end(copy_, 7), absl::OkStatus());
  ASSERT_EQ(device_.synchronize(copy_), absl::OkStatus());
  ASSERT_EQ(timer.collect(), absl::OkStatus());
  EXPECT_EQ(timer.amount(), 7);
  EXPECT_LT(timer.time(), kCopyTime);
}

TEST_F(StreamTimerTest, ErrorsOfTheDeviceComeThrough) {
  EXPECT_TRUE(StreamTimer::create(device_, 1).ok());
  device_.faults().fail(FaultPoint::kCreateEvent, 2);
  EXPECT_EQ(StreamTimer::create(device_, 1).status().code(),
            absl::StatusCode::kInternal);
  StreamTimer timer = *StreamTimer::create(device_, 1);
  device_.faults().fail(FaultPoint::kRecord, 1);
  EXPECT_EQ(timer.begin(copy_).code(), absl::StatusCode::kInternal);
  ASSERT_EQ(timer.begin(copy_), absl::OkStatus());
  device_.faults().fail(FaultPoint::kRecord, 1);
  EXPECT_EQ(timer.end(copy_, 1).code(), absl::StatusCode::kInternal);
  ASSERT_EQ(timer.collect(), absl::OkStatus());
  EXPECT_EQ(timer.amount(), 0);
}

}  // namespace
}  // namespace ferry
