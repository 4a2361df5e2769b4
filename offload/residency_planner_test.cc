#include "offload/residency_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "offload/ring_model.h"

namespace ferry {
namespace {

using Blocks = std::vector<int64_t>;

int64_t sum(const Blocks& blocks) {
  return std::accumulate(blocks.begin(), blocks.end(), int64_t{0});
}

// Time of a pass ÷ the larger of its compute and its transfers, when the
// streamed blocks' transfers take `ratio` times as long as all compute.
double over_bound(const Blocks& block_bytes,
                  const std::vector<bool>& is_resident, int slots,
                  double ratio) {
  double streamed = 0;
  for (size_t i = 0; i < block_bytes.size(); ++i) {
    if (!is_resident[i]) streamed += static_cast<double>(block_bytes[i]);
  }
  const auto total = static_cast<double>(sum(block_bytes));
  std::vector<ModelBlock> blocks;
  for (size_t i = 0; i < block_bytes.size(); ++i) {
    const auto bytes = static_cast<double>(block_bytes[i]);
    blocks.push_back({bytes / total, bytes / streamed * ratio, is_resident[i]});
  }
  return model_pass_time(blocks, slots) / std::max(1.0, ratio);
}

// 19 large blocks and 38 small ones.
Blocks like_flux() {
  Blocks blocks(19, 680);
  blocks.resize(57, 283);
  return blocks;
}

TEST(RingModel, KnownTimes) {
  // Transfers alone, compute alone, and one slot, which hides nothing.
  const std::vector<ModelBlock> slow_link(4, {1, 3, false});
  EXPECT_DOUBLE_EQ(model_pass_time(slow_link, 2), 12);
  const std::vector<ModelBlock> fast_link(4, {3, 1, false});
  EXPECT_DOUBLE_EQ(model_pass_time(fast_link, 2), 12);
  EXPECT_DOUBLE_EQ(model_pass_time(slow_link, 1), 16);
  const std::vector<ModelBlock> resident(4, {1, 3, true});
  EXPECT_DOUBLE_EQ(model_pass_time(resident, 2), 4);
}

TEST(ResidencyPlanner, EqualBlocksReachTheBound) {
  const Blocks blocks(24, 100);
  for (const int resident : {0, 6, 8, 16}) {
    const Residency plan = plan_resident_layers(blocks, resident);
    EXPECT_EQ(
        std::count(plan.is_resident.begin(), plan.is_resident.end(), true),
        resident);
    for (const double ratio : {0.5, 1.0, 2.0}) {
      EXPECT_LE(over_bound(blocks, plan.is_resident, plan.slots, ratio), 1.03)
          << resident << " " << ratio;
    }
  }
}

TEST(ResidencyPlanner, SpreadOutBeatsTheLeadingBlocks) {
  const Blocks blocks(24, 100);
  const Residency plan = plan_resident_layers(blocks, 16);
  std::vector<bool> leading(24, true);
  std::fill(leading.begin() + 16, leading.end(), false);
  EXPECT_GE(over_bound(blocks, leading, plan.slots, 1) /
                over_bound(blocks, plan.is_resident, plan.slots, 1),
            1.4);
}

TEST(ResidencyPlanner, UnequalBlocksReachTheBound) {
  const Blocks blocks = like_flux();
  const int64_t memory = sum(blocks) * 45 / 100;
  const auto plan = plan_memory_budget(blocks, memory);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LE(plan->device_bytes, memory);
  EXPECT_LE(over_bound(blocks, plan->is_resident, plan->slots, 1), 1.05);
}

TEST(ResidencyPlanner, ABudgetIsUsed) {
  const Blocks blocks = like_flux();
  for (const int percent : {20, 40, 60, 80}) {
    const int64_t memory = sum(blocks) * percent / 100;
    const auto plan = plan_memory_budget(blocks, memory);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_LE(plan->device_bytes, memory);
    EXPECT_GE(plan->device_bytes, memory * 9 / 10) << percent;
  }
}

TEST(ResidencyPlanner, EverythingStaysWhenItFits) {
  const Blocks blocks = {5, 7, 9};
  const auto plan = plan_memory_budget(blocks, 21);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->is_resident, (std::vector<bool>{true, true, true}));
  EXPECT_EQ(plan->slots, 0);
  EXPECT_EQ(plan->device_bytes, 21);
}

TEST(ResidencyPlanner, OneSlotWhereNothingElseFits) {
  const auto plan = plan_memory_budget(Blocks{5, 7, 9}, 9);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->slots, 1);
  EXPECT_EQ(plan->device_bytes, 9);
}

TEST(ResidencyPlanner, ATooSmallBudgetIsRefusedWithNumbers) {
  const absl::Status status = plan_memory_budget(Blocks{5, 7, 9}, 8).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      status.message(),
      "the blocks need at least 9 bytes of device memory, and may have 8");
}

TEST(ResidencyPlanner, AnyPlanAddsUp) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    Blocks blocks;
    const int count = 1 + static_cast<int>(random() % 12);
    for (int i = 0; i < count; ++i) blocks.push_back(1 + random() % 50);
    const int64_t memory = 1 + random() % (sum(blocks) + 20);
    const int64_t largest = *std::max_element(blocks.begin(), blocks.end());
    const auto plan = plan_memory_budget(blocks, memory);
    if (!plan.ok()) {
      EXPECT_LT(memory, largest);
      continue;
    }
    int64_t bytes = 0;
    int64_t slot = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (plan->is_resident[i]) {
        bytes += blocks[i];
      } else {
        slot = std::max(slot, blocks[i]);
      }
    }
    EXPECT_EQ(plan->device_bytes, bytes + plan->slots * slot);
    EXPECT_LE(plan->device_bytes, memory);
    const int resident = static_cast<int>(random() % (count + 2));
    const Residency layers = plan_resident_layers(blocks, resident);
    EXPECT_EQ(
        std::count(layers.is_resident.begin(), layers.is_resident.end(), true),
        std::min(resident, count));
  }
}

}  // namespace
}  // namespace ferry
