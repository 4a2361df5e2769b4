// Streams, events, copies and their time.

#include "platform/device/simulated/simulated_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/testing/simulated_clock.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/event.h"
#include "platform/device/host_arena.h"
#include "platform/device/resource_owner.h"
#include "platform/device/simulated/operation_log.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/simulated/stream_engine.h"
#include "platform/device/stream.h"
#include "platform/device/stream_guard.h"
#include "platform/device/stream_lease.h"

namespace ferry {
namespace {

using Phase = LoggedOperation::Phase;

constexpr int64_t kBytes = 1 << 20;
// Of a copy of kBytes.
constexpr absl::Duration kCopyTime = absl::Nanoseconds(10'000 + kBytes);

SimulatedDeviceOptions byte_a_nanosecond() {
  SimulatedDeviceOptions options;
  options.h2d_gbps = 1;
  options.d2h_gbps = 1;
  options.latency = absl::Microseconds(10);
  options.check = true;
  return options;
}

// A device, an image full of 'x', and a slot.
class DeviceTest : public testing::Test {
 protected:
  // In real time, or in time that stands still until advance() moves it.
  explicit DeviceTest(bool is_real)
      : device_(byte_a_nanosecond(), is_real ? Clock::real() : clock_) {
    device_.operations().start(1000);
    slot_ = *device_.allocate(kBytes, "slot");
    image_ = *device_.allocate_host(kBytes, "image");
    const HostAccess access = *image_.access(AccessKind::kWrite, 0, kBytes);
    std::fill_n(access.data(), kBytes, 'x');
    lease_ = *device_.acquire_stream(StreamKind::kTransfer, "copy");
    other_lease_ = *device_.acquire_stream(StreamKind::kTransfer, "other");
    copy_ = lease_.get();
    other_ = other_lease_.get();
    compute_ = device_.current_stream();
  }

  ~DeviceTest() override {
    // Arenas are freed in order, and copies that wait for time end.
    clock_.advance(absl::Hours(1));
    device_.look_again();
    EXPECT_TRUE(device_.synchronize().ok());
  }

  void advance(absl::Duration duration) {
    clock_.advance(duration);
    device_.look_again();
  }
  absl::Status load(Stream stream) {
    return device_.copy_async(
        stream, {CopyKind::kHostToDevice, slot_.data(), image_.data(), kBytes});
  }
  Event recorded(Stream stream) {
    Event event = *device_.create_event(true);
    EXPECT_TRUE(device_.record(event, stream).ok());
    return event;
  }
  int count_in_slot(char byte) const {
    return static_cast<int>(
        std::count(slot_.data(), slot_.data() + kBytes, byte));
  }
  // Blocks until some copy of `stream` is in this phase.
  void await_copy(Stream stream, Phase phase) const {
    const auto is_there = [&] {
      for (const LoggedOperation& entry : device_.operations().entries()) {
        if (entry.kind == OperationKind::kCopy && entry.phase == phase &&
            entry.stream == stream.id) {
          return true;
        }
      }
      return false;
    };
    while (!is_there()) std::this_thread::yield();
  }

  SimulatedClock clock_;
  mutable SimulatedDevice device_;
  DeviceArena slot_;
  HostArena image_;
  StreamLease lease_;
  StreamLease other_lease_;
  Stream copy_;
  Stream other_;
  Stream compute_;
};

class RealTimeTest : public DeviceTest {
 protected:
  RealTimeTest() : DeviceTest(true) {}
};

class StoppedTimeTest : public DeviceTest {
 protected:
  StoppedTimeTest() : DeviceTest(false) {}
};

TEST_F(StoppedTimeTest, BytesBecomeVisibleAtTheSetEndAndNotBefore) {
  ASSERT_TRUE(load(copy_).ok());
  const Event ready = recorded(copy_);
  await_copy(copy_, Phase::kStarted);
  EXPECT_EQ(count_in_slot('\xFF'), kBytes);
  advance(kCopyTime - absl::Nanoseconds(1));
  EXPECT_FALSE(*device_.query(ready));
  EXPECT_EQ(count_in_slot('\xFF'), kBytes);
  advance(absl::Nanoseconds(1));
  ASSERT_TRUE(device_.synchronize(ready).ok());
  EXPECT_EQ(count_in_slot('x'), kBytes);
  EXPECT_TRUE(*device_.query(ready));
}

TEST_F(StoppedTimeTest, ACopyPoisonsItsTargetWhenItStarts) {
  ASSERT_TRUE(load(copy_).ok());
  advance(kCopyTime);
  ASSERT_TRUE(device_.synchronize(copy_).ok());
  ASSERT_EQ(count_in_slot('x'), kBytes);
  // On a stream that has not started a copy yet.
  ASSERT_TRUE(load(other_).ok());
  await_copy(other_, Phase::kStarted);
  EXPECT_EQ(count_in_slot('\xFF'), kBytes);
}

TEST_F(StoppedTimeTest, CopiesOfOneStreamRunOneAfterTheOther) {
  const Event start = recorded(copy_);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(load(copy_).ok());
  const Event end = recorded(copy_);
  EXPECT_EQ(*device_.elapsed(start, end), std::nullopt);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(*device_.query(end));
    advance(kCopyTime);
  }
  ASSERT_TRUE(device_.synchronize(end).ok());
  const auto elapsed = device_.elapsed(start, end);
  ASSERT_TRUE(elapsed.ok()) << elapsed.status();
  EXPECT_EQ(*elapsed, 3 * kCopyTime);
}

TEST_F(StoppedTimeTest, DirectionsCopyAtTheSameTime) {
  ASSERT_TRUE(load(copy_).ok());
  ASSERT_TRUE(device_.wait(other_, recorded(copy_)).ok());
  const DeviceArena second = *device_.allocate(kBytes, "second");
  ASSERT_TRUE(device_
                  .copy_async(copy_, {CopyKind::kHostToDevice, second.data(),
                                      image_.data(), kBytes})
                  .ok());
  const HostArena target = *device_.allocate_host(kBytes, "target");
  ASSERT_TRUE(device_
                  .copy_async(other_, {CopyKind::kDeviceToHost, target.data(),
                                       slot_.data(), kBytes})
                  .ok());
  const Event in = recorded(copy_);
  const Event out = recorded(other_);
  advance(kCopyTime);
  await_copy(other_, Phase::kStarted);
  advance(kCopyTime);
  ASSERT_TRUE(device_.synchronize(in).ok());
  ASSERT_TRUE(device_.synchronize(out).ok());
  const HostAccess access = *target.access(AccessKind::kRead, 0, kBytes);
  EXPECT_EQ(std::count(access.data(), access.data() + kBytes, 'x'), kBytes);
}

TEST_F(StoppedTimeTest, AWaitCapturesTheLatestRecordOfItsTime) {
  Event event = recorded(other_);
  ASSERT_TRUE(device_.wait(other_, event).ok());
  ASSERT_TRUE(load(copy_).ok());
  // The same event again, where it is not complete for a while.
  ASSERT_TRUE(device_.record(event, copy_).ok());
  EXPECT_FALSE(*device_.query(event));
  EXPECT_TRUE(device_.synchronize(other_).ok());
  EXPECT_FALSE(*device_.query(event));
  ASSERT_TRUE(device_.wait(other_, event).ok());
  const Event behind = recorded(other_);
  EXPECT_FALSE(*device_.query(behind));
  advance(kCopyTime);
  EXPECT_TRUE(device_.synchronize(behind).ok());
}

TEST_F(StoppedTimeTest, AnEventThatIsGoneIsStillWaitedFor) {
  ASSERT_TRUE(load(copy_).ok());
  {
    const Event event = recorded(copy_);
    ASSERT_TRUE(device_.wait(other_, event).ok());
  }
  // It may even be another event by now.
  const Event reused = recorded(compute_);
  const Event behind = recorded(other_);
  EXPECT_TRUE(*device_.query(reused));
  EXPECT_FALSE(*device_.query(behind));
  advance(kCopyTime);
  EXPECT_TRUE(device_.synchronize(behind).ok());
}

TEST_F(StoppedTimeTest, ElapsedTimeIsForTimedEvents) {
  const Event plain = *device_.create_event(false);
  ASSERT_TRUE(device_.record(plain, copy_).ok());
  ASSERT_TRUE(device_.synchronize(plain).ok());
  EXPECT_EQ(device_.elapsed(recorded(compute_), plain).status().message(),
            "elapsed time: the second event is not a timed one");
}

TEST_F(StoppedTimeTest, TheLogShowsWhatWasAskedForBeforeWhatHappened) {
  ASSERT_TRUE(load(copy_).ok());
  ASSERT_TRUE(load(copy_).ok());
  const Event end = recorded(copy_);
  advance(kCopyTime);
  await_copy(copy_, Phase::kEnded);
  advance(kCopyTime);
  ASSERT_TRUE(device_.synchronize(end).ok());
  const std::vector<LoggedOperation> log = device_.operations().entries();
  const auto position = [&log](int64_t nth, OperationKind kind, Phase phase) {
    for (size_t i = 0; i < log.size(); ++i) {
      if (log[i].kind == kind && log[i].phase == phase && nth-- == 0) {
        return static_cast<int>(i);
      }
    }
    return -1;
  };
  const auto copy = OperationKind::kCopy;
  EXPECT_LT(position(1, copy, Phase::kEnqueued),
            position(0, copy, Phase::kEnded));
  EXPECT_LT(position(0, copy, Phase::kEnded),
            position(1, copy, Phase::kStarted));
  EXPECT_LT(position(1, copy, Phase::kEnded),
            position(0, OperationKind::kRecord, Phase::kStarted));
  const LoggedOperation& first =
      log[static_cast<size_t>(position(0, copy, Phase::kEnded))];
  EXPECT_EQ(first.data, slot_.data());
  EXPECT_EQ(first.bytes, kBytes);
  EXPECT_EQ(first.stream, copy_.id);
  EXPECT_EQ(first.at - log[0].at, kCopyTime);
}

TEST_F(StoppedTimeTest, TheLogKeepsTheLatestEntries) {
  device_.operations().start(2);
  for (int i = 0; i < 3; ++i) recorded(compute_);
  const std::vector<LoggedOperation> log = device_.operations().entries();
  ASSERT_EQ(log.size(), 2u);
  EXPECT_EQ(log[0].phase, Phase::kStarted);
  EXPECT_EQ(log[1].phase, Phase::kEnded);
}

TEST_F(RealTimeTest, CopiesTakeTheirTime) {
  const absl::Duration start = Clock::real().monotonic();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(load(copy_).ok());
  ASSERT_TRUE(device_.synchronize(copy_).ok());
  EXPECT_GE(Clock::real().monotonic() - start, 5 * kCopyTime);
  EXPECT_EQ(count_in_slot('x'), kBytes);
}

TEST_F(RealTimeTest, AWaitOfAComputeStreamBlocksUntilTheBytesAreThere) {
  ASSERT_TRUE(load(copy_).ok());
  const Event before = recorded(compute_);
  ASSERT_TRUE(device_.wait(compute_, recorded(copy_)).ok());
  const Event after = recorded(compute_);
  EXPECT_EQ(count_in_slot('x'), kBytes);
  // That is how a stall is measured.
  const auto stall = device_.elapsed(before, after);
  ASSERT_TRUE(stall.ok()) << stall.status();
  EXPECT_GT(**stall, absl::ZeroDuration());
}

TEST_F(RealTimeTest, ACopyFromPageableMemoryBlocksTheHost) {
  const std::vector<char> bytes(kBytes, 'p');
  const absl::Duration start = Clock::real().monotonic();
  ASSERT_TRUE(device_
                  .copy_async(copy_, {CopyKind::kHostToDevice, slot_.data(),
                                      bytes.data(), kBytes})
                  .ok());
  EXPECT_GE(Clock::real().monotonic() - start, kCopyTime);
  EXPECT_TRUE(*device_.query(recorded(compute_)));
  EXPECT_EQ(count_in_slot('p'), kBytes);
  EXPECT_EQ(device_.stats().pageable.count, 1);
  EXPECT_EQ(device_.stats().pageable.bytes, kBytes);
}

TEST_F(RealTimeTest, CountsCopiesByTheirKind) {
  ASSERT_TRUE(load(copy_).ok());
  ASSERT_TRUE(load(copy_).ok());
  ASSERT_TRUE(device_
                  .copy_async(copy_, {CopyKind::kDeviceToHost, image_.data(),
                                      slot_.data(), 10})
                  .ok());
  ASSERT_TRUE(device_
                  .copy_async(copy_, {CopyKind::kDeviceToDevice, slot_.data(),
                                      slot_.data() + 100, 20})
                  .ok());
  const DeviceStats stats = device_.stats();
  EXPECT_EQ(stats.host_to_device.count, 2);
  EXPECT_EQ(stats.host_to_device.bytes, 2 * kBytes);
  EXPECT_EQ(stats.device_to_host.bytes, 10);
  EXPECT_EQ(stats.device_to_device.bytes, 20);
  EXPECT_EQ(stats.pageable.count, 0);
}

TEST_F(RealTimeTest, NothingToCopyIsNoCopy) {
  EXPECT_TRUE(device_.copy_async(copy_, {}).ok());
  EXPECT_EQ(device_.stats().host_to_device.count, 0);
}

TEST_F(RealTimeTest, GuardsNestAndBelongToTheirThreadAndDevice) {
  SimulatedDevice second(byte_a_nanosecond(), Clock::real());
  const Stream second_default = second.current_stream();
  {
    const StreamGuard outer(device_, copy_);
    EXPECT_EQ(device_.current_stream(), copy_);
    EXPECT_EQ(second.current_stream(), second_default);
    {
      const StreamGuard inner(device_, other_);
      EXPECT_EQ(device_.current_stream(), other_);
      std::thread([this] {
        EXPECT_EQ(device_.current_stream(), compute_);
      }).join();
    }
    EXPECT_EQ(device_.current_stream(), copy_);
  }
  EXPECT_EQ(device_.current_stream(), compute_);
}

TEST_F(RealTimeTest, StreamsGoBackAndComeAgain) {
  const int64_t id = other_.id;
  other_lease_.reset();
  EXPECT_EQ(load(other_).message(),
            absl::StrCat("stream ", id,
                         " is none of this device, or was given back"));
  other_lease_ = *device_.acquire_stream(StreamKind::kTransfer, "again");
  EXPECT_EQ(other_lease_.get().id, id);
  EXPECT_EQ(device_.record(*device_.create_event(false), Stream{}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(RealTimeTest, SaysWhenThereAreNoMoreStreams) {
  std::vector<StreamLease> leases;
  absl::Status status;
  while (status.ok()) {
    auto lease = device_.acquire_stream(StreamKind::kCompute, "one more");
    status = lease.status();
    if (lease.ok()) leases.push_back(*std::move(lease));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(leases.size(), 29u);
}

TEST_F(RealTimeTest, WorkRunsInTheOrderOfItsStream) {
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(device_
                    .launch(copy_, {},
                            [&order, i] {
                              order.push_back(i);
                              return absl::OkStatus();
                            })
                    .ok());
  }
  ASSERT_TRUE(device_.synchronize(copy_).ok());
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(StoppedTimeTest, WorkEndsWhenItSays) {
  const absl::Duration time = absl::Milliseconds(5);
  ASSERT_TRUE(load(copy_).ok());
  const Event start = recorded(copy_);
  ASSERT_TRUE(device_
                  .launch_timed(copy_, {},
                                [&](WorkTimes& times) {
                                  times.end = times.start + time;
                                  return absl::OkStatus();
                                })
                  .ok());
  const Event end = recorded(copy_);
  // The copy's thread may be late: times are set ones.
  advance(kCopyTime + time - absl::Nanoseconds(1));
  ASSERT_TRUE(device_.synchronize(start).ok());
  EXPECT_FALSE(*device_.query(end));
  advance(absl::Nanoseconds(1));
  ASSERT_TRUE(device_.synchronize(end).ok());
  EXPECT_EQ(**device_.elapsed(start, end), time);
}

TEST_F(RealTimeTest, WorkOfAComputeStreamRunsOnTheCallersThread) {
  std::thread::id thread;
  ASSERT_TRUE(device_
                  .launch(compute_, {},
                          [&thread] {
                            thread = std::this_thread::get_id();
                            return absl::OkStatus();
                          })
                  .ok());
  EXPECT_EQ(thread, std::this_thread::get_id());
}

TEST_F(RealTimeTest, ManyThreadsMayUseItAtOnce) {
  constexpr int kThreads = 4;
  constexpr int64_t kPart = kBytes / kThreads;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i] {
      const StreamLease lease =
          *device_.acquire_stream(StreamKind::kTransfer, "thread");
      const StreamLease mine =
          *device_.acquire_stream(StreamKind::kCompute, "thread");
      const Event ready = *device_.create_event(false);
      const Event used = *device_.create_event(false);
      char* const slot = slot_.data() + i * kPart;
      for (int round = 0; round < 50; ++round) {
        if (round > 0) {
          EXPECT_TRUE(device_.wait(lease.get(), used).ok());
        }
        EXPECT_TRUE(device_
                        .copy_async(lease.get(),
                                    {CopyKind::kHostToDevice, slot,
                                     image_.data() + i * kPart, kPart / 100})
                        .ok());
        EXPECT_TRUE(device_.record(ready, lease.get()).ok());
        EXPECT_TRUE(device_.wait(mine.get(), ready).ok());
        EXPECT_TRUE(
            device_
                .mark_access(mine.get(), AccessKind::kRead, slot, kPart / 100)
                .ok());
        EXPECT_EQ(std::count(slot, slot + kPart / 100, 'x'), kPart / 100);
        EXPECT_TRUE(device_.discard(mine.get(), slot, kPart / 100).ok());
        EXPECT_TRUE(device_.record(used, mine.get()).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(device_.violations().empty());
}

}  // namespace
}  // namespace ferry
