// In the steady state a gather allocates no memory.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/event.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/stream.h"
#include "platform/device/stream_lease.h"
#include "platform/distributed/in_process/in_process_group.h"
#include "platform/distributed/simulated/simulated_communicator.h"
#include "platform/distributed/testing/rank_threads.h"

namespace {

// Of all threads.
std::atomic<int64_t> allocations{0};

}  // namespace

void* operator new(size_t bytes) {
  ++allocations;
  if (void* const data = std::malloc(bytes)) return data;
  throw std::bad_alloc();
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }

namespace ferry {
namespace {

constexpr int kRanks = 2;
constexpr int64_t kBytes = 4096;

class SteadyStateTest : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(CheckOffAndOn, SteadyStateTest, testing::Bool());

TEST_P(SteadyStateTest, NothingAllocates) {
  SimulatedDeviceOptions options;
  options.memory_bytes = 1 << 20;
  options.check = GetParam();
  SimulatedCommunicatorOptions communicator_options;
  communicator_options.latency = absl::Microseconds(10);
  InProcessGroup group(kRanks);
  run_ranks(kRanks, [&](int rank) {
    SimulatedDevice device(options, Clock::real());
    SimulatedCommunicator communicator(device, group.join(rank),
                                       communicator_options);
    const DeviceArena shard = *device.allocate(kBytes, "shard");
    const DeviceArena slot = *device.allocate(kRanks * kBytes, "slot");
    const StreamLease lease =
        *device.acquire_stream(StreamKind::kTransfer, "gather");
    const Event ready = *device.create_event(false);
    const Event used = *device.create_event(false);
    const Stream compute = device.current_stream();
    ASSERT_TRUE(device
                    .launch(lease.get(),
                            {{AccessKind::kWrite, shard.data(), kBytes}},
                            [] { return absl::OkStatus(); })
                    .ok());
    const auto gathers = [&](int count) {
      for (int i = 0; i < count; ++i) {
        ASSERT_TRUE(
            communicator
                .all_gather(lease.get(), shard.data(), slot.data(), kBytes)
                .ok());
        ASSERT_TRUE(device.record(ready, lease.get()).ok());
        ASSERT_TRUE(device.wait(compute, ready).ok());
        ASSERT_TRUE(device.record(used, compute).ok());
        ASSERT_TRUE(device.wait(lease.get(), used).ok());
      }
    };
    gathers(100);
    // Both ranks are on their way between here and the last gather.
    const int64_t before = allocations;
    gathers(400);
    if (rank == 0) EXPECT_EQ(allocations - before, 0);
    gathers(1);
    ASSERT_TRUE(device.synchronize().ok());
  });
}

}  // namespace
}  // namespace ferry
