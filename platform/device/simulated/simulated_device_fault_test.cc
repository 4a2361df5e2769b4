// Faults that a test switches on.

#include <gtest/gtest.h>

#include <stdexcept>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/testing/simulated_clock.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/event.h"
#include "platform/device/host_arena.h"
#include "platform/device/resource_owner.h"
#include "platform/device/simulated/fault_plan.h"
#include "platform/device/simulated/host_memory.h"
#include "platform/device/simulated/operation_log.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/simulated/stream_engine.h"
#include "platform/device/stream.h"
#include "platform/device/stream_lease.h"

namespace ferry {
namespace {

constexpr int64_t kBytes = 1000;

SimulatedDeviceOptions byte_a_nanosecond() {
  SimulatedDeviceOptions options;
  options.h2d_gbps = 1;
  options.latency = absl::ZeroDuration();
  options.check = true;
  return options;
}

class FaultTest : public testing::Test {
 protected:
  FaultTest() : device_(byte_a_nanosecond(), Clock::real()) {
    slot_ = *device_.allocate(kBytes, "slot");
    image_ = *device_.allocate_host(kBytes, "image");
    lease_ = *device_.acquire_stream(StreamKind::kTransfer, "copy");
    event_ = *device_.create_event(false);
  }

  absl::Status load() {
    return device_.copy_async(
        lease_.get(),
        {CopyKind::kHostToDevice, slot_.data(), image_.data(), kBytes});
  }

  // What a copy brings: an arena is filled with zeros.
  static char image_byte() { return 0; }

  // `call` works, fails once, and works again.
  template <typename Call>
  void expect_second_fails(FaultPoint point, absl::StatusCode code,
                           const Call& call) {
    device_.faults().fail(point, 2);
    EXPECT_TRUE(call().ok());
    const absl::Status status = call();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(status.message().find("fault switch: "), 0u) << status;
    EXPECT_TRUE(call().ok());
  }

  SimulatedDevice device_;
  DeviceArena slot_;
  HostArena image_;
  StreamLease lease_;
  Event event_;
};

TEST_F(FaultTest, TheNthAllocationFails) {
  expect_second_fails(
      FaultPoint::kAllocate, absl::StatusCode::kResourceExhausted,
      [this] { return device_.allocate(10, "arena").status(); });
  EXPECT_EQ(device_.faults().calls(FaultPoint::kAllocate), 4);
  expect_second_fails(
      FaultPoint::kAllocateHost, absl::StatusCode::kResourceExhausted,
      [this] { return device_.allocate_host(10, "arena").status(); });
}

TEST_F(FaultTest, TheNthStreamFails) {
  expect_second_fails(
      FaultPoint::kAcquireStream, absl::StatusCode::kResourceExhausted, [this] {
        return device_.acquire_stream(StreamKind::kCompute, "stream").status();
      });
}

TEST_F(FaultTest, TheNthEventFails) {
  const auto internal = absl::StatusCode::kInternal;
  expect_second_fails(FaultPoint::kCreateEvent, internal,
                      [this] { return device_.create_event(false).status(); });
  expect_second_fails(FaultPoint::kRecord, internal,
                      [this] { return device_.record(event_, lease_.get()); });
  expect_second_fails(FaultPoint::kWait, internal, [this] {
    return device_.wait(device_.current_stream(), event_);
  });
}

TEST_F(FaultTest, TheNthSynchronizationFailsOfEachKind) {
  const auto internal = absl::StatusCode::kInternal;
  ASSERT_TRUE(device_.record(event_, lease_.get()).ok());
  const auto point = FaultPoint::kSynchronize;
  expect_second_fails(point, internal,
                      [this] { return device_.synchronize(); });
  expect_second_fails(point, internal,
                      [this] { return device_.synchronize(event_); });
  expect_second_fails(point, internal,
                      [this] { return device_.synchronize(lease_.get()); });
}

TEST_F(FaultTest, TheNthCopyFailsAndHasDoneNothing) {
  expect_second_fails(FaultPoint::kCopy, absl::StatusCode::kInternal,
                      [this] { return load(); });
  EXPECT_EQ(device_.stats().host_to_device.count, 2);
  EXPECT_TRUE(device_.synchronize().ok());
}

TEST_F(FaultTest, ACopyThatFailsWhileItRunsEndsTheDevice) {
  device_.faults().fail(FaultPoint::kCopyRun, 2);
  ASSERT_TRUE(load().ok());
  ASSERT_TRUE(load().ok());
  const absl::Status status = device_.synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), "fault switch: run of a copy number 2 fails");
  // Every call says so from now on.
  const Stream compute = device_.current_stream();
  EXPECT_EQ(load(), status);
  EXPECT_EQ(device_.synchronize(), status);
  EXPECT_EQ(device_.synchronize(lease_.get()), status);
  EXPECT_EQ(device_.synchronize(event_), status);
  EXPECT_EQ(device_.query(event_).status(), status);
  EXPECT_EQ(device_.record(event_, compute), status);
  EXPECT_EQ(device_.wait(compute, event_), status);
  EXPECT_EQ(device_.elapsed(event_, event_).status(), status);
  EXPECT_EQ(device_.create_event(false).status(), status);
  EXPECT_EQ(device_.acquire_stream(StreamKind::kCompute, "late").status(),
            status);
  EXPECT_EQ(device_.allocate(10, "late").status(), status);
  EXPECT_EQ(device_.allocate_host(10, "late").status(), status);
  EXPECT_EQ(device_.memory_info().status(), status);
  EXPECT_EQ(device_.discard(compute, slot_.data(), 10), status);
  EXPECT_EQ(device_.mark_access(compute, AccessKind::kRead, slot_.data(), 10),
            status);
  // Handles can be given back, and the bytes do not come back.
  EXPECT_EQ(slot_.data()[0], '\xFF');
  EXPECT_TRUE(slot_.free().ok());
  EXPECT_TRUE(image_.free().ok());
  event_.reset();
  lease_.reset();
}

TEST_F(FaultTest, WhoWaitsForACopyThatFailsLearnsIt) {
  device_.faults().fail(FaultPoint::kCopyRun, 1);
  ASSERT_TRUE(load().ok());
  // It may have failed already, when the record is asked for.
  const absl::Status recorded = device_.record(event_, lease_.get());
  const absl::Status status =
      recorded.ok() ? device_.wait(device_.current_stream(), event_) : recorded;
  EXPECT_EQ(status.message(), "fault switch: run of a copy number 1 fails");
}

// As some errors of a GPU are: the stream goes on, and so does the host.
TEST_F(FaultTest, ACopyThatFailsInSilenceIsToldToWhoAsks) {
  const Stream compute = device_.current_stream();
  ASSERT_TRUE(load().ok());
  ASSERT_TRUE(device_.synchronize().ok());
  device_.faults().fail(FaultPoint::kCopySilent, 1);
  ASSERT_TRUE(load().ok());
  ASSERT_TRUE(device_.record(event_, lease_.get()).ok());
  ASSERT_TRUE(device_.wait(compute, event_).ok());
  EXPECT_TRUE(*device_.query(event_));
  EXPECT_TRUE(device_.synchronize(event_).ok());
  EXPECT_TRUE(device_.synchronize(lease_.get()).ok());
  EXPECT_TRUE(device_.memory_info().ok());
  EXPECT_NE(slot_.data()[0], image_byte());
  const absl::Status status = device_.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(),
            "fault switch: run of a copy, in silence, number 2 fails");
  EXPECT_EQ(load(), status);
  EXPECT_EQ(device_.synchronize(event_), status);
}

TEST_F(FaultTest, ToSynchronizeWithAllOfADeviceIsToAsk) {
  device_.faults().fail(FaultPoint::kCopySilent, 1);
  ASSERT_TRUE(load().ok());
  EXPECT_FALSE(device_.synchronize().ok());
}

TEST_F(FaultTest, WorkThatFailsEndsTheDevice) {
  ASSERT_TRUE(device_
                  .launch(lease_.get(), {},
                          [] { return absl::InternalError("no ranks"); })
                  .ok());
  EXPECT_EQ(device_.synchronize().message(), "no ranks");
  EXPECT_EQ(load().message(), "no ranks");
}

TEST_F(FaultTest, WorkThatFailsDoesNotTakeItsTime) {
  ASSERT_TRUE(device_
                  .launch_timed(lease_.get(), {},
                                [](WorkTimes& times) {
                                  times.end = times.start + absl::Hours(1);
                                  return absl::UnavailableError("gone");
                                })
                  .ok());
  EXPECT_EQ(device_.synchronize(), absl::UnavailableError("gone"));
}

TEST(SlowCopy, TakesSoMuchLonger) {
  SimulatedClock clock;
  SimulatedDevice device(byte_a_nanosecond(), clock);
  const DeviceArena slot = *device.allocate(kBytes, "slot");
  const HostArena image = *device.allocate_host(kBytes, "image");
  const StreamLease copy = *device.acquire_stream(StreamKind::kTransfer, "c");
  const Event start = *device.create_event(true);
  const Event end = *device.create_event(true);
  device.faults().slow_copy(2, absl::Seconds(1));
  ASSERT_TRUE(device.record(start, copy.get()).ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(device
                    .copy_async(copy.get(), {CopyKind::kHostToDevice,
                                             slot.data(), image.data(), kBytes})
                    .ok());
  }
  ASSERT_TRUE(device.record(end, copy.get()).ok());
  clock.advance(absl::Seconds(2));
  device.look_again();
  ASSERT_TRUE(device.synchronize().ok());
  EXPECT_EQ(*device.elapsed(start, end),
            absl::Seconds(1) + 3 * absl::Nanoseconds(kBytes));
}

// The caller's thread, or one of the device's, carries it out.
TEST_F(FaultTest, WorkThatThrowsMakesTheDeviceFail) {
  for (const StreamKind kind : {StreamKind::kCompute, StreamKind::kTransfer}) {
    for (const bool is_known : {true, false}) {
      SimulatedDevice device(byte_a_nanosecond(), Clock::real());
      {
        const StreamLease lease = *device.acquire_stream(kind, "work");
        (void)device.launch(lease.get(), {}, [is_known]() -> absl::Status {
          if (is_known) throw std::runtime_error("no such kernel");
          throw 7;
        });
        const absl::Status status = device.synchronize(lease.get());
        EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
        EXPECT_EQ(status.message(),
                  is_known ? "work of a stream: no such kernel"
                           : "work of a stream: an exception of an unknown "
                             "type");
      }
      EXPECT_EQ(device.synchronize().code(), absl::StatusCode::kInternal);
    }
  }
}

// What would use a stream, an event or an arena of nobody, or memory that is
// not there.
TEST(SimulatedDeviceDeathTest, BrokenContractsEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH((void)StreamLease().get(), "owner_ != nullptr");
  EXPECT_DEATH((void)Event().id(), "owner_ != nullptr");
  SimulatedDeviceOptions no_memory;
  no_memory.memory_bytes = -1;
  EXPECT_DEATH(SimulatedDevice(no_memory, Clock::real()),
               "simulated_device_memory: -1 is not");
}

TEST(StreamEngineDeathTest, BrokenContractsEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  OperationLog log;
  StreamEngine engine(byte_a_nanosecond(), Clock::real(), &log);
  const int64_t stream = *engine.open(StreamKind::kTransfer, "copy");
  EXPECT_DEATH((void)engine.enqueue(stream + 1, {}), "stream.*size");
  EXPECT_DEATH((void)engine.last(0), "stream >= 1 \\(0 and 1\\)");
  EXPECT_DEATH((void)engine.reached({-1, 0}), "stream >= 1");
  EXPECT_DEATH(engine.close(2), "stream.*size");
  engine.close(stream);
  EXPECT_DEATH((void)engine.enqueue(stream, {}), "target.is_open");
}

TEST(HostMemoryDeathTest, BrokenContractsEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  HostMemory memory;
  char byte = 0;
  EXPECT_DEATH(memory.free(&byte), "arena != arenas_.end");
  EXPECT_DEATH((void)memory.begin_access(AccessKind::kRead, &byte),
               "next != arenas_.begin");
  char* const data = static_cast<char*>(*memory.allocate(kBytes, "image"));
  EXPECT_DEATH(memory.free(data + 1), "arena != arenas_.end");
  EXPECT_DEATH((void)memory.begin_access(AccessKind::kRead, data + kBytes + 1),
               "start <= arena.bytes \\(1001 and 1000\\)");
  for (const AccessKind kind : {AccessKind::kRead, AccessKind::kWrite}) {
    EXPECT_DEATH((void)memory.end_access(kind, data), "count > 0");
    ASSERT_TRUE(memory.begin_access(kind, data).ok());
    ASSERT_TRUE(memory.end_access(kind, data).ok());
    EXPECT_DEATH((void)memory.end_access(kind, data), "count > 0");
  }
}

}  // namespace
}  // namespace ferry
