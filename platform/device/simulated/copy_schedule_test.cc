#include "platform/device/simulated/copy_schedule.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "platform/device/device.h"
#include "platform/device/simulated/simulated_device_options.h"

namespace ferry {
namespace {

constexpr absl::Duration kNow = absl::Seconds(100);

SimulatedDeviceOptions options(int engines) {
  SimulatedDeviceOptions options;
  options.h2d_gbps = 1;  // A byte a nanosecond.
  options.d2h_gbps = 0.5;
  options.latency = absl::Microseconds(10);
  options.copy_engines = engines;
  return options;
}

absl::Duration end_of(CopySchedule& schedule, CopyKind kind, int64_t bytes,
                      absl::Duration ready = kNow) {
  return schedule.add(kind, bytes, ready, absl::ZeroDuration()).end - kNow;
}

TEST(CopySchedule, TakesLatencyAndBytesByTheRate) {
  CopySchedule schedule(options(1));
  const auto times =
      schedule.add(CopyKind::kHostToDevice, 1000, kNow, absl::ZeroDuration());
  EXPECT_EQ(times.start, kNow);
  EXPECT_EQ(times.end, kNow + absl::Microseconds(11));
}

TEST(CopySchedule, DirectionsHaveTheirOwnRates) {
  CopySchedule schedule(options(2));
  EXPECT_EQ(end_of(schedule, CopyKind::kHostToDevice, 1000),
            absl::Microseconds(11));
  EXPECT_EQ(end_of(schedule, CopyKind::kDeviceToHost, 1000),
            absl::Microseconds(12));
}

TEST(CopySchedule, OneEngineCopiesOneAfterTheOther) {
  CopySchedule schedule(options(1));
  EXPECT_EQ(end_of(schedule, CopyKind::kHostToDevice, 1000),
            absl::Microseconds(11));
  EXPECT_EQ(end_of(schedule, CopyKind::kDeviceToHost, 1000),
            absl::Microseconds(23));
}

TEST(CopySchedule, OfOneDirectionLatenciesOverlapAndBytesDoNot) {
  CopySchedule schedule(options(2));
  EXPECT_EQ(end_of(schedule, CopyKind::kHostToDevice, 1000),
            absl::Microseconds(11));
  EXPECT_EQ(end_of(schedule, CopyKind::kHostToDevice, 1000),
            absl::Microseconds(12));
  // Both engines are in use.
  EXPECT_EQ(end_of(schedule, CopyKind::kHostToDevice, 1000),
            absl::Microseconds(22));
}

TEST(CopySchedule, NothingStartsBeforeItIsReady) {
  CopySchedule schedule(options(1));
  EXPECT_EQ(end_of(schedule, CopyKind::kHostToDevice, 1000),
            absl::Microseconds(11));
  EXPECT_EQ(
      end_of(schedule, CopyKind::kHostToDevice, 1000, kNow + absl::Seconds(1)),
      absl::Seconds(1) + absl::Microseconds(11));
}

TEST(CopySchedule, InsideOfTheDeviceOnlyTheLatencyCounts) {
  CopySchedule schedule(options(1));
  EXPECT_EQ(end_of(schedule, CopyKind::kDeviceToDevice, int64_t{1} << 40),
            absl::Microseconds(10));
}

TEST(CopySchedule, ASlowCopyDelaysThoseAfterIt) {
  CopySchedule schedule(options(1));
  schedule.add(CopyKind::kHostToDevice, 1000, kNow, absl::Seconds(1));
  EXPECT_EQ(end_of(schedule, CopyKind::kHostToDevice, 1000),
            absl::Seconds(1) + absl::Microseconds(22));
}

}  // namespace
}  // namespace ferry
