// What groups take of the memory of devices and hosts.

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "offload/offload_stats.h"
#include "offload/preflight.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/toy_group.h"
#include "offload/testing/toy_module.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/device_stats.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/device/simulated/simulated_platform.h"
#include "platform/distributed/testing/rank_threads.h"

namespace ferry {
namespace {

using testing::Each;
using testing::IsEmpty;

// Of a block with a weight, a bias and a scale, and of the large one of
// unequal().
constexpr int64_t kBlockBytes = 4 * kToyWidth * kToyWidth + 2 * 256;
constexpr int64_t kLargeBytes = kBlockBytes + 16'640;

// Two DiTs and an encoder, with one block that is larger than all others.
ToyGroupOptions unequal(int ranks) {
  at::set_num_threads(1);
  ToyGroupOptions options;
  options.ranks = ranks;
  options.device = checked_device();
  options.unequal = true;
  options.toy.dits = 2;
  options.toy.encoders = 1;
  options.toy.blocks = 5;
  options.toy.counts = false;
  return options;
}

const SimulatedDevice& device(ToyGroup& group, int rank) {
  return group.rank(rank).platform->simulated_device();
}

// Whole parts of the image's alignment.
int64_t share_of(int64_t bytes, int ranks) {
  return (bytes + 256 * ranks - 1) / (256 * ranks) * 256;
}

// All rings use the same slots, which the largest block of any of them fits
// into: the more ranks, the smaller the two slots for shares.
TEST(GroupMemoryTest, DevicesHoldTheSlotsOfTheLargestBlock) {
  for (const int ranks : {2, 3, 4}) {
    for (const int slots : {2, 3}) {
      ToyGroupOptions options = unequal(ranks);
      options.slots = slots;
      ToyGroup group(options);
      ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
      const int64_t share = share_of(kLargeBytes, ranks);
      const OffloadStats stats = group.rank(0).backend->stats();
      const int64_t granularity =
          group.rank(0).platform->device()->allocation_granularity();
      EXPECT_LE(stats.device_bytes - stats.resident_bytes -
                    (slots * ranks + 2) * share,
                2 * granularity);
      EXPECT_GE(stats.device_bytes, (slots * ranks + 2) * share);
      EXPECT_EQ(device(group, 0).stats().device.bytes_peak, stats.device_bytes);
      run_ranks(ranks, [&](int rank) {
        for (const size_t component : {2, 0, 1, 0}) {
          EXPECT_TRUE(group.is_same(rank, component, toy_input()));
        }
        group.rank(rank).backend->end_generation();
      });
      EXPECT_THAT(group.violations(), IsEmpty());
    }
  }
}

// Of the phase that needs most.
int64_t needed(ToyGroup& group) {
  int64_t bytes = 0;
  for (const MemoryNeed& need : group.rank(0).backend->memory_needs().device) {
    bytes = std::max(bytes, need.bytes());
  }
  return bytes;
}

// What three slots need; there is enough for them.
int64_t needed_by_three(ToyGroupOptions options) {
  ToyGroup group(options);
  EXPECT_THAT(group.enable(), Each(absl::OkStatus()));
  EXPECT_EQ(group.rank(0).backend->stats().slots, 3);
  EXPECT_LE(device(group, 0).stats().device.bytes_peak, needed(group));
  return needed(group);
}

// A tenth of the memory is left to activations.
TEST(GroupMemoryTest, AThirdSlotIsTakenWhereItFits) {
  ToyGroupOptions options = unequal(2);
  options.slots = std::nullopt;
  const int64_t enough = needed_by_three(options) * 10 / 9 + 2;
  for (const int64_t bytes : {enough, enough - 4}) {
    options.device.memory_bytes = bytes;
    ToyGroup group(options);
    ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
    const int slots = bytes == enough ? 3 : 2;
    EXPECT_EQ(group.rank(1).backend->stats().slots, slots) << bytes;
    EXPECT_LE(device(group, 1).stats().device.bytes_peak, needed(group));
    run_ranks(2, [&](int rank) { group.expect_request(rank, 3); });
    EXPECT_THAT(group.violations(), IsEmpty());
  }
}

TEST(GroupMemoryTest, TheRankWithTheLeastMemoryDecidesAboutSlots) {
  ToyGroupOptions options = unequal(3);
  options.slots = std::nullopt;
  const int64_t left = needed_by_three(options);
  ToyGroup group(options);
  Device& full = *group.rank(1).platform->device();
  const DeviceArena others =
      *full.allocate(full.memory_info()->free_bytes - left, "others");
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(group.rank(rank).backend->stats().slots, 2);
  }
  run_ranks(3, [&](int rank) { group.expect_request(rank, 2); });
  EXPECT_THAT(group.violations(), IsEmpty());
}

// No rank ever has more than its part and what is being packed.
TEST(GroupMemoryTest, LoadingTakesAShareOfTheHost) {
  for (const int ranks : {2, 3, 4}) {
    ToyGroupOptions options = unequal(ranks);
    options.shares_images = true;
    ToyGroup group(options);
    ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
    for (int rank = 0; rank < ranks; ++rank) {
      const int64_t streamed = group.rank(rank).backend->stats().streamed_bytes;
      EXPECT_GE(streamed, 14 * kBlockBytes + kLargeBytes);
      // Arenas are whole pages.
      const int64_t pages = int64_t{15} * 4096;
      EXPECT_LE(device(group, rank).stats().host.bytes_peak,
                streamed / ranks + pages + 2 * kBlockBytes);
    }
  }
}

TEST(GroupMemoryTest, TwentyRequestsTakeNoMoreMemory) {
  constexpr int kRanks = 2;
  ToyGroup group(unequal(kRanks));
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  const auto used = [&] {
    std::vector<int64_t> bytes;
    for (int rank = 0; rank < kRanks; ++rank) {
      const DeviceStats stats = device(group, rank).stats();
      bytes.push_back(stats.device.bytes_peak);
      bytes.push_back(stats.device.allocations);
      bytes.push_back(stats.host.bytes_peak);
      bytes.push_back(stats.host.allocations);
    }
    return bytes;
  };
  const std::vector<int64_t> before = used();
  run_ranks(kRanks, [&](int rank) {
    for (int request = 0; request < 20; ++request) {
      group.expect_request(rank, 2 + (request + rank) % 3);
    }
  });
  EXPECT_EQ(used(), before);
}

// Ranks that start at different times would wait for each other.
TEST(GroupMemoryTest, NothingIsGatheredUntilSomebodyAsks) {
  ToyGroup group(unequal(3));
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  EXPECT_EQ(group.waves(), 0);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(group.rank(rank).backend->stats().gathered_bytes, 0);
  }
}

// It streams as a rank without a group does.
TEST(GroupMemoryTest, AGroupOfOneGathersNothing) {
  ToyGroup group(unequal(1));
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  EXPECT_EQ(group.rank(0).backend->wave_participant(), nullptr);
  group.expect_request(0, 3);
  const OffloadStats stats = group.rank(0).backend->stats();
  EXPECT_EQ(stats.gathered_bytes, 0);
  EXPECT_GE(stats.h2d_bytes, 3 * (4 * kBlockBytes + kLargeBytes));
  EXPECT_EQ(group.waves(), 0);
  EXPECT_THAT(group.violations(), IsEmpty());
}

}  // namespace
}  // namespace ferry
