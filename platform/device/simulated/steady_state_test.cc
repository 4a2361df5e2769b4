// In the steady state nothing allocates memory, and calls are cheap.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "absl/time/time.h"
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

constexpr int64_t kBytes = 4096;

class SteadyStateTest : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(CheckOffAndOn, SteadyStateTest, testing::Bool());

TEST_P(SteadyStateTest, NothingAllocates) {
  SimulatedDeviceOptions options;
  options.memory_bytes = 1 << 20;
  options.h2d_gbps = 1000;
  options.latency = absl::ZeroDuration();
  options.check = GetParam();
  SimulatedDevice device(options, Clock::real());
  device.operations().start(64);
  const DeviceArena slot = *device.allocate(2 * kBytes, "slots");
  const HostArena image = *device.allocate_host(kBytes, "image");
  const StreamLease lease = *device.acquire_stream(StreamKind::kTransfer, "c");
  const Stream copy = lease.get();
  const Stream compute = device.current_stream();
  const Event ready = *device.create_event(true);
  const Event used = *device.create_event(true);
  ASSERT_TRUE(device.record(used, compute).ok());
  // The calls that one block needs; returns how long the host took for those
  // that are said to be cheap and do not wait.
  const auto block = [&](int round) {
    char* const data = slot.data() + round % 2 * kBytes;
    const absl::Duration start = Clock::real().monotonic();
    bool ok = device.wait(copy, used).ok();
    ok &= device
              .copy_async(copy,
                          {CopyKind::kHostToDevice, data, image.data(), kBytes})
              .ok();
    ok &= device.record(ready, copy).ok();
    const absl::Duration enqueued = Clock::real().monotonic() - start;
    ok &= device.wait(compute, ready).ok();
    const absl::Duration woken = Clock::real().monotonic();
    ok &= device.mark_access(compute, AccessKind::kRead, data, kBytes).ok();
    ok &= device.mark_access(compute, AccessKind::kRead, data, kBytes).ok();
    ok &= device.discard(compute, data, kBytes).ok();
    ok &= device.record(used, compute).ok();
    EXPECT_TRUE(ok);
    return enqueued + (Clock::real().monotonic() - woken);
  };
  for (int round = 0; round < 100; ++round) block(round);
  std::vector<absl::Duration> times;
  times.reserve(2000);
  const int64_t before = allocations;
  for (int round = 0; round < 2000; ++round) times.push_back(block(round));
  EXPECT_EQ(allocations - before, 0);
  ASSERT_TRUE(device.synchronize().ok());
  std::sort(times.begin(), times.end());
  std::printf("check %s: seven calls take %.2f us (p50), %.2f us (p99)\n",
              GetParam() ? "on" : "off",
              absl::ToDoubleMicroseconds(times[1000]),
              absl::ToDoubleMicroseconds(times[1980]));
}

}  // namespace
}  // namespace ferry
