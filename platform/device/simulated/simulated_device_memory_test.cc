// Memory of the simulated device: what it gives, and who may touch it.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/host_arena.h"
#include "platform/device/resource_owner.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/stream_lease.h"

namespace ferry {
namespace {

SimulatedDeviceOptions small(bool check) {
  SimulatedDeviceOptions options;
  options.memory_bytes = 1 << 20;
  options.latency = absl::ZeroDuration();
  options.check = check;
  return options;
}

bool is_poison(const char* data, int64_t bytes) {
  return std::all_of(data, data + bytes,
                     [](char byte) { return byte == '\xFF'; });
}

// Sum of a field, in bytes, over the mappings of files called so.
int64_t smaps_bytes(absl::string_view name, absl::string_view field) {
  std::ifstream smaps("/proc/self/smaps");
  bool is_inside = false;
  int64_t sum = 0;
  for (std::string line; std::getline(smaps, line);) {
    const std::vector<std::string> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (absl::StrContains(words[0], '-')) {
      is_inside = absl::StrContains(line, name);
    } else if (is_inside && words[0] == absl::StrCat(field, ":")) {
      int64_t kibibytes = 0;
      EXPECT_TRUE(absl::SimpleAtoi(words[1], &kibibytes));
      sum += kibibytes * 1024;
    }
  }
  return sum;
}

class MemoryTest : public testing::TestWithParam<bool> {
 protected:
  MemoryTest() : device_(small(GetParam()), Clock::real()) {}

  SimulatedDevice device_;
};

INSTANTIATE_TEST_SUITE_P(CheckOffAndOn, MemoryTest, testing::Bool());

TEST_P(MemoryTest, CountsExactly) {
  EXPECT_EQ(device_.allocation_granularity(), 256);
  DeviceArena first = *device_.allocate(1000, "first");
  DeviceArena second = *device_.allocate(256, "second");
  EXPECT_EQ(first.bytes(), 1000);
  EXPECT_EQ(device_.memory_info()->total_bytes, 1 << 20);
  EXPECT_EQ(device_.memory_info()->free_bytes, (1 << 20) - 1024 - 256);
  EXPECT_TRUE(first.free().ok());
  EXPECT_EQ(device_.memory_info()->free_bytes, (1 << 20) - 256);
  const HostArena host = *device_.allocate_host(5000, "host");
  const DeviceStats stats = device_.stats();
  EXPECT_EQ(stats.device.bytes_in_use, 256);
  EXPECT_EQ(stats.device.bytes_peak, 1280);
  EXPECT_EQ(stats.device.allocations, 2);
  EXPECT_EQ(stats.host.bytes_in_use, 8192);
  EXPECT_EQ(stats.host.allocations, 1);
}

TEST_P(MemoryTest, IsLimitedAndSaysWhatIsFree) {
  const DeviceArena most = *device_.allocate((1 << 20) - 512, "most");
  const absl::Status status = device_.allocate(513, "slot 1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      status.message(),
      "device memory: \"slot 1\" needs 513 bytes, and 512 of 1048576 are free");
  EXPECT_TRUE(device_.allocate(512, "slot 1").ok());
}

TEST_P(MemoryTest, ArenasMoveAndFreeOnce) {
  DeviceArena arena = *device_.allocate(1000, "arena");
  char* const data = arena.data();
  DeviceArena moved = std::move(arena);
  EXPECT_EQ(moved.data(), data);
  moved = *device_.allocate(2000, "other");
  EXPECT_EQ(device_.memory_info()->free_bytes, (1 << 20) - 2048);
  EXPECT_TRUE(moved.free().ok());
  EXPECT_TRUE(moved.free().ok());
  EXPECT_EQ(device_.memory_info()->free_bytes, 1 << 20);
}

TEST_P(MemoryTest, AHostArenaIsZeroAndKeepsWhatTheHostWrites) {
  const HostArena arena = *device_.allocate_host(10000, "image");
  {
    const HostAccess access = *arena.access(AccessKind::kWrite, 0, 10000);
    EXPECT_EQ(access.data(), arena.data());
    EXPECT_EQ(std::count(access.data(), access.data() + 10000, '\0'), 10000);
    std::fill_n(access.data(), 10000, 'x');
  }
  const HostAccess access = *arena.access(AccessKind::kRead, 5000, 5000);
  EXPECT_EQ(access.data(), arena.data() + 5000);
  EXPECT_EQ(std::count(access.data(), access.data() + 5000, 'x'), 5000);
}

TEST_P(MemoryTest, AHostArenaIsClosedOutsideOfAnAccess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const HostArena arena = *device_.allocate_host(100, "image");
  const auto touch = [&arena] {
    volatile char byte = *static_cast<volatile char*>(arena.data());
    (void)byte;
  };
  EXPECT_DEATH(touch(), "");
  {
    const HostAccess outer = *arena.access(AccessKind::kWrite, 0, 100);
    { const HostAccess inner = *arena.access(AccessKind::kRead, 0, 10); }
    touch();
    outer.data()[0] = 'x';
  }
  EXPECT_DEATH(touch(), "");
}

TEST_P(MemoryTest, AReadAccessDoesNotAllowWrites) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const HostArena arena = *device_.allocate_host(100, "image");
  const HostAccess access = *arena.access(AccessKind::kRead, 0, 100);
  EXPECT_DEATH(*static_cast<volatile char*>(access.data()) = 'x', "");
}

TEST_P(MemoryTest, AccessesLieInsideOfTheArena) {
  const HostArena arena = *device_.allocate_host(100, "image");
  for (const auto& [offset, bytes] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 101}, {-1, 1}, {100, 1}, {1, INT64_MAX}, {0, -1}}) {
    EXPECT_EQ(arena.access(AccessKind::kRead, offset, bytes).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_P(MemoryTest, HostAndDeviceMemoryHaveNamesAndCountOnce) {
  constexpr int64_t kBytes = 512 << 10;
  const int64_t host_before = smaps_bytes("memfd:ferry-host", "Pss");
  const int64_t device_before = smaps_bytes("memfd:ferry-device", "Pss");
  const HostArena image = *device_.allocate_host(kBytes, "image");
  const DeviceArena slot = *device_.allocate(kBytes, "slot");
  {
    const HostAccess access = *image.access(AccessKind::kWrite, 0, kBytes);
    std::fill_n(access.data(), kBytes, 'x');
  }
  const StreamLease copy = *device_.acquire_stream(StreamKind::kTransfer, "c");
  ASSERT_TRUE(device_
                  .copy_async(copy.get(), {CopyKind::kHostToDevice, slot.data(),
                                           image.data(), kBytes})
                  .ok());
  ASSERT_TRUE(device_.synchronize().ok());
  // The copy engine's mapping does not count again.
  EXPECT_EQ(smaps_bytes("memfd:ferry-host", "Pss") - host_before, kBytes);
  EXPECT_EQ(smaps_bytes("memfd:ferry-device", "Pss") - device_before, kBytes);
}

TEST_P(MemoryTest, AFileIsAnArenaThatNobodyWrites) {
  const std::string path = testing::TempDir() + "/image";
  {
    std::ofstream file(path);
    file << std::string(4096, 'a') << std::string(4096, 'b');
  }
  std::FILE* const file = std::fopen(path.c_str(), "r");
  ASSERT_NE(file, nullptr);
  const int fd = ::fileno(file);
  const HostArena arena = *device_.map_host_file(fd, 4096, 4000, "file");
  EXPECT_FALSE(device_.map_host_file(fd, 4096, 4097, "too long").ok());
  EXPECT_FALSE(device_.map_host_file(fd, 1, 100, "not a page").ok());
  EXPECT_FALSE(device_.map_host_file(fd, 0, 0, "empty").ok());
  EXPECT_FALSE(device_.map_host_file(-1, 0, 10, "no file").ok());
  std::fclose(file);
  EXPECT_EQ(arena.access(AccessKind::kWrite, 0, 10).status().code(),
            absl::StatusCode::kPermissionDenied);
  {
    const HostAccess access = *arena.access(AccessKind::kRead, 0, 4000);
    EXPECT_EQ(std::count(access.data(), access.data() + 4000, 'b'), 4000);
  }
  const DeviceArena slot = *device_.allocate(4000, "slot");
  const StreamLease copy = *device_.acquire_stream(StreamKind::kTransfer, "c");
  ASSERT_TRUE(device_
                  .copy_async(copy.get(), {CopyKind::kHostToDevice, slot.data(),
                                           arena.data(), 4000})
                  .ok());
  ASSERT_TRUE(device_.synchronize().ok());
  EXPECT_EQ(std::count(slot.data(), slot.data() + 4000, 'b'), 4000);
  EXPECT_EQ(device_.stats().pageable.count, 0);
  EXPECT_EQ(device_.stats().host.bytes_in_use, 0);
  EXPECT_EQ(device_
                .copy_async(copy.get(), {CopyKind::kDeviceToHost, arena.data(),
                                         slot.data(), 4000})
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(MemoryTest, CopiesStayInsideOfTheirArenas) {
  const DeviceArena slot = *device_.allocate(1000, "slot");
  const HostArena image = *device_.allocate_host(1000, "image");
  std::vector<char> pageable(2000);
  const StreamLease lease = *device_.acquire_stream(StreamKind::kTransfer, "c");
  const auto copy = [&](CopyKind kind, void* to, const void* from,
                        int64_t bytes) {
    return device_.copy_async(lease.get(), {kind, to, from, bytes});
  };
  const auto in = CopyKind::kHostToDevice;
  const auto out = CopyKind::kDeviceToHost;
  const auto inside = CopyKind::kDeviceToDevice;
  EXPECT_FALSE(copy(in, slot.data(), image.data(), 1001).ok());
  EXPECT_FALSE(copy(in, slot.data(), pageable.data(), 1001).ok());
  EXPECT_FALSE(copy(in, slot.data() + 1, image.data(), 1000).ok());
  EXPECT_FALSE(copy(in, slot.data(), image.data() + 1, 1000).ok());
  EXPECT_FALSE(copy(in, slot.data(), slot.data(), 10).ok());
  EXPECT_FALSE(copy(in, pageable.data(), image.data(), 10).ok());
  EXPECT_FALSE(copy(out, image.data(), pageable.data(), 10).ok());
  EXPECT_FALSE(copy(inside, slot.data(), image.data(), 10).ok());
  EXPECT_FALSE(copy(in, slot.data(), image.data(), -1).ok());
  EXPECT_EQ(device_.stats().host_to_device.count, 0);
}

TEST_P(MemoryTest, TheAuditKnowsWhatKernelsMayRead) {
  DeviceArena slot = *device_.allocate(1000, "slot");
  const HostArena image = *device_.allocate_host(1000, "image");
  const std::vector<char> pageable(1000);
  EXPECT_TRUE(device_.audit(slot.data(), 1000).ok());
  EXPECT_TRUE(device_.audit(slot.data() + 999, 1).ok());
  EXPECT_TRUE(device_.audit(nullptr, 0).ok());
  EXPECT_EQ(device_.violations().size(), 0u);
  EXPECT_EQ(device_.audit(image.data(), 1000).message(),
            "simulated device: bytes [0, 1000) of host arena \"image\" are a "
            "host image; kernels read what is on the device only");
  EXPECT_TRUE(absl::StrContains(device_.audit(pageable.data(), 1000).message(),
                                "are no memory of the device"));
  EXPECT_FALSE(device_.audit(slot.data(), 1001).ok());
  char* const freed = slot.data();
  ASSERT_TRUE(slot.free().ok());
  EXPECT_TRUE(
      absl::StrContains(device_.audit(freed, 1000).message(), "were freed"));
  EXPECT_EQ(device_.violations().size(), 4u);
}

TEST(CheckedMemory, AUseAfterFreeShowsAsPoison) {
  SimulatedDevice device(small(true), Clock::real());
  DeviceArena slot = *device.allocate(1000, "slot");
  const char* const data = slot.data();
  EXPECT_TRUE(is_poison(data, 1000));
  const std::vector<char> bytes(1000, 'x');
  const Copy copy = {CopyKind::kHostToDevice, slot.data(), bytes.data(), 1000};
  ASSERT_TRUE(device.copy_async(device.current_stream(), copy).ok());
  ASSERT_TRUE(device.synchronize().ok());
  ASSERT_EQ(std::count(data, data + 1000, 'x'), 1000);
  ASSERT_TRUE(slot.free().ok());
  EXPECT_TRUE(is_poison(data, 1000));
}

TEST(CheckedMemory, ADiscardedSlotShowsAsPoison) {
  SimulatedDevice device(small(true), Clock::real());
  const DeviceArena slot = *device.allocate(1000, "slot");
  const std::vector<char> bytes(1000, 'x');
  const Copy copy = {CopyKind::kHostToDevice, slot.data(), bytes.data(), 1000};
  const Stream compute = device.current_stream();
  ASSERT_TRUE(device.copy_async(compute, copy).ok());
  ASSERT_TRUE(device.discard(compute, slot.data(), 600).ok());
  EXPECT_TRUE(is_poison(slot.data(), 600));
  EXPECT_EQ(std::count(slot.data(), slot.data() + 1000, 'x'), 400);
  ASSERT_TRUE(device.synchronize().ok());
}

}  // namespace
}  // namespace ferry
