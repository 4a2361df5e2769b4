#include "offload/residency_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "offload/ring_model.h"
#include "offload/slot_layout.h"

namespace ferry {
namespace {

using Blocks = std::vector<int64_t>;

int64_t sum(const Blocks& blocks) {
  return std::accumulate(blocks.begin(), blocks.end(), int64_t{0});
}

RingNeeds ring_of(const Blocks& blocks) {
  RingNeeds ring;
  ring.block_bytes = blocks;
  return ring;
}

// Exactly so many blocks stay, in any memory.
Residency plan_resident_layers(const Blocks& blocks, int resident) {
  RingNeeds ring = ring_of(blocks);
  ring.resident = resident;
  return plan_residency({ring}, std::numeric_limits<int64_t>::max())->front();
}

absl::StatusOr<Residency> plan_memory_budget(const Blocks& blocks,
                                             int64_t memory_bytes) {
  const auto plans = plan_residency({ring_of(blocks)}, memory_bytes);
  if (!plans.ok()) return plans.status();
  return plans->front();
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

TEST(ResidencyPlanner, OneLargeBlockAmongTinyOnesNeedsNoSecondLargeSlot) {
  Blocks blocks(20, 1);
  blocks[7] = 500;
  for (const int64_t memory : {500, 501, 505}) {
    const auto plan = plan_memory_budget(blocks, memory);
    ASSERT_TRUE(plan.ok()) << memory << " " << plan.status();
    EXPECT_LE(plan->device_bytes, memory);
  }
  EXPECT_FALSE(plan_memory_budget(blocks, 499).ok());
}

TEST(ResidencyPlanner, BlocksInsideOfOthersHaveASlotEach) {
  RingNeeds ring = ring_of({5, 9, 7});
  ring.nests = true;
  EXPECT_EQ(least_bytes(ring), 16);
  EXPECT_FALSE(plan_residency({ring}, 15).ok());
  EXPECT_EQ(plan_residency({ring}, 16)->front().slots, 2);
}

TEST(ResidencyPlanner, WhatARingCannotUseTheOthersGet) {
  // The first one has few bytes, and so a share by bytes would be too little
  // for its one large block; the second one would not need its own.
  const RingNeeds uneven = ring_of({60, 1, 1, 1});
  const RingNeeds even = ring_of(Blocks(40, 5));
  for (const int64_t memory : {65, 100, 200}) {
    const auto plans = plan_residency({uneven, even}, memory);
    ASSERT_TRUE(plans.ok()) << memory << " " << plans.status();
    const int64_t used = (*plans)[0].device_bytes + (*plans)[1].device_bytes;
    EXPECT_LE(used, memory);
    EXPECT_GE(used, memory - 5) << "a block more would have fit";
  }
  const auto too_little = plan_residency({uneven, even}, 64).status();
  EXPECT_EQ(too_little.message(),
            "the blocks need at least 65 bytes of device memory, and may have "
            "64");
  // A small ring stays as a whole, and the rest is the large one's.
  const auto plans = plan_residency({ring_of({3, 3}), even}, 56);
  EXPECT_EQ((*plans)[0].slots, 0);
  EXPECT_EQ((*plans)[1].device_bytes, 50);
}

TEST(ResidencyPlanner, ARingThatRunsOnceGivesWayToOneThatRunsInEveryStep) {
  RingNeeds once = ring_of(Blocks(4, 10));
  once.resident = 0;
  once.most_slots = 2;
  RingNeeds often = ring_of(Blocks(4, 10));
  often.passes = 20;
  const auto plans = plan_residency({once, often}, 50);
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_EQ((*plans)[0].slots, 1);
  EXPECT_EQ((*plans)[1].slots, 0);
}

TEST(ResidencyPlanner, ManyRingsAndLongOnes) {
  std::vector<RingNeeds> rings(100, ring_of({8, 8}));
  rings.push_back(ring_of(Blocks(2000, 100)));
  const auto plans = plan_residency(rings, 100 * 8 + 60'000);
  ASSERT_TRUE(plans.ok()) << plans.status();
  int64_t used = 0;
  for (const Residency& plan : *plans) used += plan.device_bytes;
  EXPECT_LE(used, 100 * 8 + 60'000);
  EXPECT_GE(used, 60'000);
}

TEST(ResidencyPlanner, SizesThatAreTooLargeAreRefused) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t size : {kMost, kMost / 2 + 1, kMost / 3}) {
    const std::vector<RingNeeds> rings(4, ring_of(Blocks(4, size)));
    EXPECT_FALSE(plan_residency(rings, kMost - 1).ok()) << size;
  }
}

// What any plan of the ring needs and takes: every set of resident blocks, with
// every number of slots. The best ones, the smallest first.
using Cost = std::pair<int64_t, double>;

std::vector<Cost> all_costs(const RingNeeds& ring) {
  const size_t blocks = ring.block_bytes.size();
  std::vector<Cost> costs;
  for (unsigned set = 0; set < 1U << blocks; ++set) {
    Residency plan;
    int64_t resident_bytes = 0;
    Blocks streamed;
    for (size_t i = 0; i < blocks; ++i) {
      plan.is_resident.push_back((set >> i & 1U) != 0);
      if (plan.is_resident[i]) {
        resident_bytes += ring.block_bytes[i];
      } else {
        streamed.push_back(ring.block_bytes[i]);
      }
    }
    const auto resident = static_cast<int>(blocks - streamed.size());
    if (ring.resident && resident != *ring.resident) continue;
    for (int slots = ring.nests ? 2 : 1; slots <= ring.most_slots; ++slots) {
      const SlotLayout layout = plan_slots(streamed, slots, ring.nests);
      plan.slots = layout.slots;
      costs.emplace_back(resident_bytes + layout.bytes(),
                         modelled_time(ring, plan));
    }
  }
  std::sort(costs.begin(), costs.end());
  std::vector<Cost> best;
  for (const Cost& cost : costs) {
    if (best.empty() || cost.second < best.back().second) best.push_back(cost);
  }
  return best;
}

RingNeeds any_ring(std::mt19937& random) {
  Blocks blocks;
  const unsigned count = 1 + random() % 6;
  const unsigned kind = random() % 3;
  for (unsigned i = 0; i < count; ++i) {
    blocks.push_back(1 + random() % (kind == 0 ? 50 : 4));
    // Large ones and small ones in turn.
    if (kind == 1 && i % 2 == 0) blocks.back() *= 20;
  }
  if (kind == 2) blocks[random() % count] += 100;
  RingNeeds ring = ring_of(blocks);
  ring.nests = random() % 8 == 0;
  ring.passes = random() % 2 == 0 ? 1 : 20;
  if (random() % 3 == 0) {
    ring.resident = static_cast<int>(random() % (count + 1));
    ring.most_slots = 2;
  }
  return ring;
}

TEST(ResidencyPlanner, WhatFitsInAnyWayIsFoundAndIsQuick) {
  // The planner looks at some plans, the search at all of them.
  constexpr double kSlower = 1.25;
  std::mt19937 random(5);
  int found = 0;
  int refused = 0;
  double sum_of_ratios = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    std::vector<RingNeeds> rings;
    std::vector<Cost> all = {{0, 0}};
    int64_t most = 0;
    for (unsigned r = 1 + random() % 3; r > 0; --r) {
      rings.push_back(any_ring(random));
      most += sum(rings.back().block_bytes);
      std::vector<Cost> more;
      for (const Cost& cost : all_costs(rings.back())) {
        for (const Cost& before : all) {
          more.emplace_back(before.first + cost.first,
                            before.second + cost.second);
        }
      }
      all = std::move(more);
    }
    const int64_t least = std::min_element(all.begin(), all.end())->first;
    // From less than nothing fits into to more than is needed.
    const int64_t memory = least - 3 + random() % (most - least + 8);
    const auto plans = plan_residency(rings, memory);
    ASSERT_EQ(plans.ok(), least <= memory) << plans.status();
    if (!plans.ok()) {
      ++refused;
      continue;
    }
    ++found;
    int64_t bytes = 0;
    double time = 0;
    for (size_t r = 0; r < rings.size(); ++r) {
      bytes += (*plans)[r].device_bytes;
      time += modelled_time(rings[r], (*plans)[r]);
    }
    ASSERT_LE(bytes, memory);
    double quickest = std::numeric_limits<double>::max();
    for (const Cost& cost : all) {
      if (cost.first <= memory) quickest = std::min(quickest, cost.second);
    }
    EXPECT_GE(time, quickest * (1 - 1e-9));
    EXPECT_LE(time, quickest * kSlower);
    sum_of_ratios += time / quickest;
  }
  EXPECT_GT(found, 150);
  EXPECT_GT(refused, 10);
  // Nearly always there is no better one.
  EXPECT_LE(sum_of_ratios / found, 1.005);
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
    Blocks streamed;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (plan->is_resident[i]) {
        bytes += blocks[i];
      } else {
        streamed.push_back(blocks[i]);
      }
    }
    EXPECT_EQ(plan->device_bytes,
              bytes + plan_slots(streamed, plan->slots, false).bytes());
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
