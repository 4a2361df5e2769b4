#include "offload/slot_layout.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace ferry {
namespace {

using Blocks = std::vector<int64_t>;

TEST(SlotLayout, EqualBlocksNeedASlotEach) {
  for (int slots = 1; slots <= 5; ++slots) {
    EXPECT_EQ(plan_slots(Blocks(7, 10), slots, false).bytes(), 10 * slots);
  }
}

TEST(SlotLayout, NoMoreSlotsThanBlocks) {
  EXPECT_EQ(plan_slots(Blocks{4, 6}, 5, false).slots, 2);
  EXPECT_EQ(plan_slots(Blocks{4, 6}, 5, false).bytes(), 10);
  EXPECT_EQ(plan_slots(Blocks{4}, 2, false).bytes(), 4);
  EXPECT_EQ(plan_slots(Blocks{}, 2, false).bytes(), 0);
}

TEST(SlotLayout, OneLargeBlockAmongTinyOnes) {
  const Blocks blocks = {1, 1, 500, 1, 1};
  EXPECT_EQ(plan_slots(blocks, 1, false).bytes(), 500);
  EXPECT_EQ(plan_slots(blocks, 2, false).bytes(), 501);
  EXPECT_EQ(plan_slots(blocks, 3, false).bytes(), 1001);
  EXPECT_EQ(plan_slots(blocks, 4, false).bytes(), 1002);
}

TEST(SlotLayout, LargeAndSmallBlocksInTurnNeedOneOfEach) {
  EXPECT_EQ(plan_slots(Blocks{90, 10, 90, 10}, 2, false).bytes(), 100);
  // The last one is followed by the first one.
  EXPECT_EQ(plan_slots(Blocks{90, 10, 90, 10, 90}, 2, false).bytes(), 180);
}

TEST(SlotLayout, ThreeSlotsReachFurther) {
  // The first and the third block are there at the same time.
  EXPECT_EQ(plan_slots(Blocks{90, 10, 90, 10, 10}, 3, false).pair_bytes, 180);
  EXPECT_EQ(plan_slots(Blocks{90, 10, 10, 80, 10, 10}, 3, false).pair_bytes,
            100);
}

TEST(SlotLayout, BlocksInsideOfOthersMeetAnyBlock) {
  EXPECT_EQ(plan_slots(Blocks{90, 10, 80, 10}, 2, true).bytes(), 170);
  EXPECT_EQ(plan_slots(Blocks{90, 10, 80, 10}, 1, true).bytes(), 90);
}

TEST(SlotLayout, RegionsFollowEachOther) {
  const SlotLayout layout = plan_slots(Blocks{5, 4, 3, 2, 1}, 5, false);
  EXPECT_EQ(layout.pair_bytes, 9);
  EXPECT_EQ(layout.single_bytes, 5);
  EXPECT_EQ(layout.bytes(), 9 + 9 + 5);
  EXPECT_EQ(layout.region_begin(1), 0);
  EXPECT_EQ(layout.region_begin(2), 9);
  EXPECT_EQ(layout.region_begin(4), 18);
  EXPECT_TRUE(layout.is_paired(3));
  EXPECT_FALSE(layout.is_paired(4));
}

TEST(SlotLayout, SizesThatAreTooLargeStaySo) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const bool nests : {false, true}) {
    for (int slots = 2; slots <= 5; ++slots) {
      EXPECT_EQ(plan_slots(Blocks(5, kMost - 1), slots, nests).bytes(), kMost);
      EXPECT_EQ(plan_slots(Blocks(5, kMost / 2 + 1), slots, nests).bytes(),
                kMost);
    }
  }
}

}  // namespace
}  // namespace ferry
