#include "platform/device/simulated/device_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "absl/status/status.h"

namespace ferry {
namespace {

bool is_poison(const void* data, int64_t bytes) {
  const char* const begin = static_cast<const char*>(data);
  return std::all_of(begin, begin + bytes,
                     [](char byte) { return byte == '\xFF'; });
}

TEST(DeviceMemory, GivesAllOfItAndNotAByteMore) {
  DeviceMemory memory(1024, false);
  ASSERT_TRUE(memory.allocate(1024, "all").ok());
  EXPECT_EQ(memory.info().free_bytes, 0);
  const absl::Status status = memory.allocate(1, "more").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "device memory: \"more\" needs 1 bytes, and 0 of 1024 are free");
}

TEST(DeviceMemory, CountsWholeGranules) {
  DeviceMemory memory(1024, false);
  const auto data = memory.allocate(257, "two granules");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(memory.info().free_bytes, 512);
  memory.free(*data);
  EXPECT_EQ(memory.info().free_bytes, 1024);
}

TEST(DeviceMemory, RefusesWhatIsNoSize) {
  DeviceMemory memory(1024, false);
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}}) {
    EXPECT_EQ(memory.allocate(bytes, "odd").status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(memory.allocate(INT64_MAX, "huge").status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(DeviceMemory, FindsBytesInOneArenaOnly) {
  DeviceMemory memory(4096, false);
  char* const data = static_cast<char*>(*memory.allocate(1000, "first"));
  ASSERT_TRUE(memory.allocate(1000, "second").ok());
  ASSERT_NE(memory.find(data, 1000), nullptr);
  EXPECT_EQ(memory.find(data, 1000)->label, "first");
  EXPECT_NE(memory.find(data + 999, 1), nullptr);
  EXPECT_EQ(memory.find(data + 999, 2), nullptr);
  EXPECT_EQ(memory.find(data - 1, 1), nullptr);
  EXPECT_EQ(memory.find(data, -1), nullptr);
  EXPECT_TRUE(memory.contains(data));
  int host = 0;
  EXPECT_FALSE(memory.contains(&host));
  memory.free(data);
  EXPECT_EQ(memory.find(data, 1000), nullptr);
  EXPECT_TRUE(memory.contains(data));
}

TEST(DeviceMemory, PoisonFillsWhatIsAllocatedAndWhatIsFreed) {
  DeviceMemory memory(4096, true);
  char* const data = static_cast<char*>(*memory.allocate(1000, "arena"));
  EXPECT_TRUE(is_poison(data, 1000));
  std::fill(data, data + 1000, 'x');
  memory.free(data);
  EXPECT_TRUE(is_poison(data, 1000));
}

TEST(DeviceMemory, SucceedsExactlyWhenEnoughIsFreeHoweverScattered) {
  constexpr int64_t kLimit = 100 << 10;
  std::mt19937 random(7);
  DeviceMemory memory(kLimit, false);
  std::map<char*, int64_t> arenas;
  int64_t used = 0;
  int refused = 0;
  for (int step = 0; step < 5000; ++step) {
    if (!arenas.empty() && random() % 2 == 0) {
      auto victim = arenas.begin();
      std::advance(victim, random() % arenas.size());
      memory.free(victim->first);
      used -= (victim->second + 255) / 256 * 256;
      arenas.erase(victim);
      continue;
    }
    const int64_t bytes = 1 + static_cast<int64_t>(random() % (20 << 10));
    const int64_t rounded = (bytes + 255) / 256 * 256;
    const auto data = memory.allocate(bytes, "arena");
    ASSERT_EQ(data.ok(), used + rounded <= kLimit) << data.status();
    if (!data.ok()) {
      ++refused;
      continue;
    }
    used += rounded;
    ASSERT_EQ(memory.info().free_bytes, kLimit - used);
    char* const begin = static_cast<char*>(*data);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(begin) % 256, 0u);
    const auto next = arenas.lower_bound(begin);
    if (next != arenas.end()) {
      ASSERT_LE(begin + bytes, next->first);
    }
    if (next != arenas.begin()) {
      ASSERT_GE(begin, std::prev(next)->first + std::prev(next)->second);
    }
    arenas.emplace(begin, bytes);
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace ferry
