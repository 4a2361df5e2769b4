#include "offload/choose_slots.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "offload/component_role.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "offload/resolved_plan.h"

namespace ferry {
namespace {

// Ranks gather the DiTs, or each copies for itself.
OffloadConfig policy(const std::string& transfer) {
  OmniDiffusionConfig config;
  DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
  compact.mode = "layer";
  compact.components = std::vector<std::string>{"dit", "text_encoder"};
  compact.layer_options = {{"dit", transfer, std::nullopt}};
  config.parallel_config.data_parallel_size = 2;
  return *OffloadConfig::from_od_config(config);
}

// A DiT with a child, and an encoder, each with a ring.
ResolvedPlan make_plan() {
  ResolvedPlan plan;
  PlannedComponent dit;
  dit.role = ComponentRole::kDit;
  dit.stacks.resize(1);
  dit.children.push_back(dit);
  plan.components.push_back(dit);
  PlannedComponent encoder;
  encoder.role = ComponentRole::kTextEncoder;
  encoder.stacks.resize(1);
  plan.components.push_back(encoder);
  return plan;
}

TEST(ChooseSlotsTest, WhatIsGatheredHasAThirdOneIfItFits) {
  ResolvedPlan plan = make_plan();
  choose_gathered_slots(
      policy("allgather"),
      [](const ResolvedPlan& larger) {
        return larger.components[0].stacks[0].slots == kGatheredSlots;
      },
      &plan);
  EXPECT_EQ(plan.components[0].stacks[0].slots, kGatheredSlots);
  EXPECT_EQ(plan.components[0].children[0].stacks[0].slots, kGatheredSlots);
  EXPECT_EQ(plan.components[1].stacks[0].slots, 0);
}

TEST(ChooseSlotsTest, WithoutRoomNothingChanges) {
  ResolvedPlan plan = make_plan();
  choose_gathered_slots(
      policy("allgather"), [](const ResolvedPlan&) { return false; }, &plan);
  EXPECT_EQ(plan.components[0].stacks[0].slots, 0);
  EXPECT_EQ(plan.components[0].children[0].stacks[0].slots, 0);
}

TEST(ChooseSlotsTest, RanksThatCopyForThemselvesAreLeftAlone) {
  ResolvedPlan plan = make_plan();
  plan.components[0].stacks[0].slots = 2;
  choose_gathered_slots(
      policy("rank-local"),
      [](const ResolvedPlan&) {
        ADD_FAILURE() << "nothing is gathered";
        return true;
      },
      &plan);
  EXPECT_EQ(plan.components[0].stacks[0].slots, 2);
}

}  // namespace
}  // namespace ferry
