#include "platform/distributed/simulated/simulated_communicator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/base/clock.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/event.h"
#include "platform/device/host_arena.h"
#include "platform/device/resource_owner.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/stream.h"
#include "platform/device/stream_lease.h"
#include "platform/distributed/flight_recorder.h"
#include "platform/distributed/host_communicator.h"
#include "platform/distributed/in_process/in_process_group.h"
#include "platform/distributed/testing/rank_threads.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBytes = 4096;

SimulatedDeviceOptions checked() {
  SimulatedDeviceOptions options;
  options.memory_bytes = 16 << 20;
  options.latency = absl::ZeroDuration();
  options.check = true;
  return options;
}

// One rank: a device, an image that is a shard, a slot for it, and one for what
// is gathered. The image of rank r holds 'a' + r.
class Rank {
 public:
  Rank(InProcessGroup& group, int rank, int size,
       const SimulatedCommunicatorOptions& options)
      : size_(size), communicator_(device_, group.join(rank), options) {
    image_ = *device_.allocate_host(kBytes, "image");
    const HostAccess access = *image_.access(AccessKind::kWrite, 0, kBytes);
    std::fill_n(access.data(), kBytes, static_cast<char>('a' + rank));
    shard_ = *device_.allocate(kBytes, "shard slot");
    slot_ = *device_.allocate(size * kBytes, "slot");
    copy_lease_ = *device_.acquire_stream(StreamKind::kTransfer, "copy");
    gather_lease_ = *device_.acquire_stream(StreamKind::kTransfer, "gather");
    event_ = *device_.create_event(false);
  }
  // Arenas are freed in order, whatever the test did.
  ~Rank() { (void)device_.synchronize(); }

  SimulatedDevice& device() { return device_; }
  SimulatedCommunicator& communicator() { return communicator_; }
  Stream compute() const { return device_.current_stream(); }
  Stream copy_stream() const { return copy_lease_.get(); }
  Stream gather_stream() const { return gather_lease_.get(); }
  std::string slot() const {
    return {slot_.data(), slot_.data() + size_ * kBytes};
  }

  absl::Status load_shard() {
    return device_.copy_async(
        copy_stream(),
        {CopyKind::kHostToDevice, shard_.data(), image_.data(), kBytes});
  }
  absl::Status gather(int64_t bytes = kBytes) {
    return communicator_.all_gather(gather_stream(), shard_.data(),
                                    slot_.data(), bytes);
  }
  absl::Status read_slot(Stream stream) {
    return device_.mark_access(stream, AccessKind::kRead, slot_.data(),
                               size_ * kBytes);
  }
  // Orders what `after` is given from now on after what `before` was given.
  void order(Stream before, Stream after) {
    ASSERT_TRUE(device_.record(event_, before).ok());
    ASSERT_TRUE(device_.wait(after, event_).ok());
  }
  // Loads the shard, and gathers it after that.
  absl::Status load_and_gather() {
    absl::Status status = load_shard();
    order(copy_stream(), gather_stream());
    status.Update(gather());
    return status;
  }
  Event recorded(Stream stream) {
    Event event = *device_.create_event(true);
    EXPECT_TRUE(device_.record(event, stream).ok());
    return event;
  }

 private:
  const int size_;
  SimulatedDevice device_{checked(), Clock::real()};
  SimulatedCommunicator communicator_;
  HostArena image_;
  DeviceArena shard_;
  DeviceArena slot_;
  StreamLease copy_lease_;
  StreamLease gather_lease_;
  Event event_;
};

// `work(rank)` on a thread of each rank's own.
template <typename Work>
void run_group(int size, const SimulatedCommunicatorOptions& options,
               const Work& work, CallFaults faults = nullptr) {
  InProcessGroup group(size, std::move(faults));
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int i = 0; i < size; ++i) {
    ranks.push_back(std::make_unique<Rank>(group, i, size, options));
  }
  run_ranks(size, [&](int i) { work(*ranks[static_cast<size_t>(i)], i); });
}

void expect_no_violations(const Rank& rank) {
  for (const std::string& text : const_cast<Rank&>(rank).device().violations())
    ADD_FAILURE() << text;
}

TEST(SimulatedCommunicatorTest, GathersWhatWasCopiedBefore) {
  for (const int size : {1, 2, 3, 4}) {
    run_group(size, {}, [size](Rank& rank, int /*index*/) {
      std::string expected;
      for (int i = 0; i < size; ++i) {
        expected += std::string(kBytes, static_cast<char>('a' + i));
      }
      for (int round = 0; round < 20; ++round) {
        ASSERT_TRUE(rank.load_and_gather().ok());
        rank.order(rank.gather_stream(), rank.compute());
        ASSERT_TRUE(rank.read_slot(rank.compute()).ok());
        EXPECT_EQ(rank.slot(), expected);
        rank.order(rank.compute(), rank.gather_stream());
        rank.order(rank.gather_stream(), rank.copy_stream());
      }
      EXPECT_TRUE(rank.communicator().status().ok());
      expect_no_violations(rank);
    });
  }
}

TEST(SimulatedCommunicatorTest, AReadThatDoesNotWaitForTheGatherIsFound) {
  run_group(2, {}, [](Rank& rank, int /*index*/) {
    ASSERT_TRUE(rank.load_and_gather().ok());
    const absl::Status status = rank.read_slot(rank.compute());
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("is not ordered after"));
    EXPECT_EQ(rank.device().violations().size(), 1u);
  });
}

TEST(SimulatedCommunicatorTest, AGatherIntoBytesThatAreStillReadIsFound) {
  run_group(1, {}, [](Rank& rank, int /*index*/) {
    ASSERT_TRUE(rank.load_and_gather().ok());
    rank.order(rank.gather_stream(), rank.compute());
    ASSERT_TRUE(rank.read_slot(rank.compute()).ok());
    const absl::Status status = rank.gather();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("read by compute"));
    // It was not done, and the next one, in order, is.
    rank.order(rank.compute(), rank.gather_stream());
    EXPECT_TRUE(rank.gather().ok());
  });
}

TEST(SimulatedCommunicatorTest, AGatherOfAShardThatIsStillCopiedIsFound) {
  run_group(1, {}, [](Rank& rank, int /*index*/) {
    ASSERT_TRUE(rank.load_shard().ok());
    EXPECT_EQ(rank.gather().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(rank.device().violations().size(), 1u);
  });
}

TEST(SimulatedCommunicatorTest, ACopyIntoAShardThatIsStillGatheredIsFound) {
  run_group(1, {}, [](Rank& rank, int /*index*/) {
    ASSERT_TRUE(rank.load_and_gather().ok());
    EXPECT_EQ(rank.load_shard().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(rank.device().violations().size(), 1u);
  });
}

TEST(SimulatedCommunicatorTest, TakesItsTimeFromWhenTheLastRankHasCome) {
  SimulatedCommunicatorOptions options;
  options.latency = absl::Milliseconds(1);
  options.gather_gbps = 0.004;
  // One of two parts comes from elsewhere.
  const absl::Duration set = absl::Milliseconds(1) + absl::Nanoseconds(1024000);
  const absl::Duration late = absl::Milliseconds(20);
  run_group(2, options, [&](Rank& rank, int index) {
    ASSERT_TRUE(rank.load_shard().ok());
    const Event before = rank.recorded(rank.copy_stream());
    if (index == 1) {
      ASSERT_TRUE(rank.device()
                      .launch_timed(rank.copy_stream(), {},
                                    [&](WorkTimes& times) {
                                      times.end = times.start + late;
                                      return absl::OkStatus();
                                    })
                      .ok());
    }
    rank.order(rank.copy_stream(), rank.gather_stream());
    const Event start = rank.recorded(rank.gather_stream());
    ASSERT_TRUE(rank.gather().ok());
    const Event end = rank.recorded(rank.gather_stream());
    ASSERT_TRUE(rank.device().synchronize(end).ok());
    const absl::Duration gather = **rank.device().elapsed(start, end);
    if (index == 1) {
      EXPECT_EQ(gather, set);
      EXPECT_GE(**rank.device().elapsed(before, start), late);
    } else {
      EXPECT_GT(gather, set);
    }
  });
}

TEST(SimulatedCommunicatorTest, KeepsItsSetTimeInRealTime) {
  constexpr int kGathers = 30;
  SimulatedCommunicatorOptions options;
  options.latency = absl::Milliseconds(2);
  run_group(2, options, [&](Rank& rank, int index) {
    ASSERT_TRUE(rank.load_and_gather().ok());
    ASSERT_TRUE(rank.device().synchronize(rank.gather_stream()).ok());
    const absl::Duration start = Clock::real().monotonic();
    for (int i = 0; i < kGathers; ++i) ASSERT_TRUE(rank.gather().ok());
    ASSERT_TRUE(rank.device().synchronize(rank.gather_stream()).ok());
    const double ratio = absl::FDivDuration(Clock::real().monotonic() - start,
                                            kGathers * options.latency);
    EXPECT_GE(ratio, 1 - 1e-6);
    std::printf("rank %d: %d gathers took %.4f of their set time\n", index,
                kGathers, ratio);
  });
}

TEST(SimulatedCommunicatorTest, ARankThatIsGoneEndsTheGroupAndNoDevice) {
  const auto faults = [](int rank, int64_t call) {
    CallFault fault;
    if (rank == 1 && call == 2) fault.kind = CallFault::Kind::kFails;
    return fault;
  };
  run_group(
      3, {},
      [](Rank& rank, int /*index*/) {
        ASSERT_TRUE(rank.load_and_gather().ok());
        EXPECT_TRUE(rank.device().synchronize(rank.gather_stream()).ok());
        // Another rank may have got there already.
        (void)rank.gather();
        const absl::Status gone = absl::UnavailableError("rank 1 is gone");
        EXPECT_TRUE(rank.device().synchronize(rank.gather_stream()).ok());
        EXPECT_EQ(rank.communicator().status(), gone);
        EXPECT_EQ(rank.gather(), gone);
        EXPECT_TRUE(rank.device().status().ok());
      },
      faults);
}

TEST(SimulatedCommunicatorTest, OfWorkThatFailsOnlyItsStatusTells) {
  SimulatedCommunicatorOptions options;
  options.timeout = absl::Milliseconds(20);
  const auto faults = [](int rank, int64_t /*call*/) {
    CallFault fault;
    if (rank == 1) fault.kind = CallFault::Kind::kNeverArrives;
    return fault;
  };
  run_group(
      2, options,
      [](Rank& rank, int /*index*/) {
        ASSERT_TRUE(rank.load_and_gather().ok());
        EXPECT_TRUE(rank.device().synchronize(rank.gather_stream()).ok());
        EXPECT_TRUE(rank.device().status().ok());
        EXPECT_EQ(rank.communicator().status().code(),
                  absl::StatusCode::kDeadlineExceeded);
      },
      faults);
}

TEST(SimulatedCommunicatorTest, AbortEndsWhatIsUnderWay) {
  run_group(2, {}, [](Rank& rank, int index) {
    if (index == 1) {
      rank.communicator().abort("enough");
      return;
    }
    // Refused, or ended; in any case nobody waits for ever.
    (void)rank.load_and_gather();
    (void)rank.device().synchronize(rank.gather_stream());
    EXPECT_EQ(rank.communicator().status().code(),
              absl::StatusCode::kUnavailable);
  });
}

TEST(SimulatedCommunicatorTest, TheRecorderSeesGathers) {
  FlightRecorder recorder("weights", Clock::real());
  SimulatedCommunicatorOptions options;
  options.recorder = &recorder;
  run_group(1, options, [&recorder](Rank& rank, int /*index*/) {
    ASSERT_TRUE(rank.load_and_gather().ok());
    ASSERT_TRUE(rank.device().synchronize(rank.gather_stream()).ok());
    // What is refused is none.
    EXPECT_FALSE(rank.gather(0).ok());
    const std::vector<FlightRecorder::Entry> entries = recorder.entries();
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_EQ(entries[0].bytes, kBytes);
    EXPECT_EQ(entries[0].state, FlightRecorder::State::kEnded);
  });
}

TEST(SimulatedCommunicatorTest, WhatNobodyCouldGatherIsRefused) {
  run_group(1, {}, [](Rank& rank, int /*index*/) {
    EXPECT_EQ(rank.gather(0).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(rank.communicator()
                  .all_gather(rank.compute(), nullptr, nullptr, 1)
                  .code(),
              absl::StatusCode::kInvalidArgument);
    // More than the arena has.
    EXPECT_FALSE(rank.gather(2 * kBytes).ok());
    EXPECT_TRUE(rank.communicator().status().ok());
    EXPECT_TRUE(rank.load_and_gather().ok());
  });
}

}  // namespace
}  // namespace ferry
