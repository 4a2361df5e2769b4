#include "offload/choose_residents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "offload/component_role.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "offload/plan_resolver.h"
#include "offload/preflight.h"
#include "offload/resolved_plan.h"
#include "offload/testing/tree_builder.h"

namespace ferry {
namespace {

constexpr int64_t kAmple = int64_t{1} << 50;

OffloadConfig layer_policy(int64_t resident, std::optional<int64_t> budget) {
  OmniDiffusionConfig config;
  DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
  compact.mode = "layer";
  compact.components = std::vector<std::string>{"dit", "text_encoder"};
  compact.memory_budget_bytes = budget;
  if (resident > 0) compact.layer_options = {{"dit", {}, resident}};
  return *OffloadConfig::from_od_config(config);
}

// DiTs, of which the first has a child with a ring of its own, and an encoder
// of two rings.
class Pipeline {
 public:
  // Bytes of the blocks of each ring.
  Pipeline(const std::vector<std::vector<int64_t>>& dits,
           const std::vector<int64_t>& child,
           const std::vector<std::vector<int64_t>>& encoder) {
    OffloadPlan& plan = builder_.tree.plan.emplace();
    SupportsComponentDiscovery& declared = builder_.tree.declarations.emplace();
    for (size_t d = 0; d < dits.size(); ++d) {
      const std::string path = absl::StrCat("dit_", d);
      declared.dit_modules.push_back(path);
      plan.block_attrs[path] = {"blocks"};
      plan.resident_dit_paths.insert(path);
      add(absl::StrCat(path, ".blocks"), dits[d]);
    }
    if (!child.empty()) {
      plan.offload_submodules["context"] = "layers";
      add("dit_0.context.layers", child);
    }
    builder_.parameter("dit_0", 300);
    declared.encoder_modules = {"text_encoder"};
    for (size_t s = 0; s < encoder.size(); ++s) {
      const std::string list = absl::StrCat("layers_", s);
      plan.encoder_block_attrs["text_encoder"].push_back(list);
      add(absl::StrCat("text_encoder.", list), encoder[s]);
    }
  }

  ResolvedPlan resolve(const OffloadConfig& config) const {
    auto plan = resolve_offload_plan(builder_.tree, config);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *std::move(plan);
  }

 private:
  void add(const std::string& path, const std::vector<int64_t>& blocks) {
    builder_.module(path).is_list = true;
    for (size_t b = 0; b < blocks.size(); ++b) {
      builder_.parameter(absl::StrCat(path, ".", b), blocks[b]);
    }
  }

  TreeBuilder builder_;
};

int64_t bytes_of(const ResolvedPlan& plan, const OffloadConfig& config) {
  int64_t most = 0;
  for (const MemoryNeed& need :
       compute_memory_needs(plan, config, PreflightOptions()).device) {
    most = std::max(most, need.bytes());
  }
  return most;
}

// A ring of a plan; only blocks of DiTs themselves may stay.
struct Ring {
  PlannedStack* stack = nullptr;
  bool keeps = false;
};

std::vector<Ring> rings_of(ResolvedPlan* plan) {
  std::vector<Ring> rings;
  for (PlannedComponent& component : plan->components) {
    for (PlannedStack& stack : component.stacks) {
      rings.push_back({&stack, component.role == ComponentRole::kDit});
    }
    for (PlannedComponent& child : component.children) {
      for (PlannedStack& stack : child.stacks) rings.push_back({&stack, false});
    }
  }
  return rings;
}

// The least that any plan needs: every set of resident blocks and every number
// of slots of every ring. Rings need memory beside each other, and so each can
// be made small by itself.
int64_t least_of_all(const OffloadConfig& config, ResolvedPlan plan) {
  for (const Ring& ring : rings_of(&plan)) {
    std::vector<PlannedBlock>& blocks = ring.stack->blocks;
    PlannedStack best = *ring.stack;
    int64_t least = std::numeric_limits<int64_t>::max();
    const unsigned sets = ring.keeps ? 1U << blocks.size() : 1;
    for (unsigned set = 0; set < sets; ++set) {
      for (size_t b = 0; b < blocks.size(); ++b) {
        blocks[b].resident = (set >> b & 1U) != 0;
      }
      for (ring.stack->slots = 1; ring.stack->slots <= 3; ++ring.stack->slots) {
        const int64_t bytes = bytes_of(plan, config);
        if (bytes >= least) continue;
        least = bytes;
        best = *ring.stack;
      }
    }
    *ring.stack = best;
  }
  return bytes_of(plan, config);
}

TEST(ChooseResidents, WhateverFitsBySomeSplitIsServed) {
  std::mt19937 random(9);
  const auto any_blocks = [&random](unsigned least) {
    std::vector<int64_t> blocks;
    for (unsigned i = least + random() % 4; i > 0; --i) {
      blocks.push_back(1 + random() % 3000);
      if (random() % 5 == 0) blocks.back() *= 50;
    }
    return blocks;
  };
  int served = 0;
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    std::vector<std::vector<int64_t>> dits = {any_blocks(2)};
    if (random() % 2 == 0) dits.push_back(any_blocks(2));
    const std::vector<int64_t> child =
        random() % 2 == 0 ? any_blocks(2) : std::vector<int64_t>();
    const Pipeline pipeline(dits, child, {any_blocks(2), any_blocks(2)});
    const OffloadConfig any = layer_policy(0, 1);
    const int64_t least = least_of_all(any, pipeline.resolve(any));
    const int64_t rounding = random() % 600;
    const int64_t budget = least + rounding - 2000 + random() % 20'000;
    if (budget < 1) continue;
    const OffloadConfig config = layer_policy(0, budget);
    ResolvedPlan plan = pipeline.resolve(config);
    const absl::Status status =
        choose_residents(config, {}, {kAmple, budget, rounding}, &plan);
    ASSERT_EQ(status.ok(), least + rounding <= budget) << status;
    if (status.ok()) {
      ++served;
      EXPECT_LE(bytes_of(plan, config) + rounding, budget);
    } else {
      ++refused;
      EXPECT_TRUE(absl::IsResourceExhausted(status));
      EXPECT_TRUE(absl::StartsWith(
          status.message(), absl::StrCat("memory budget: ", budget, " bytes")))
          << status;
    }
  }
  EXPECT_GT(served, 150);
  EXPECT_GT(refused, 15);
}

TEST(ChooseResidents, WithoutABudgetTheDeviceDecidesAboutSlots) {
  const Pipeline pipeline({{1024, 1024, 51'200, 1024}}, {},
                          {{2048, 2048, 2048}});
  const OffloadConfig config = layer_policy(0, {});
  const ResolvedPlan resolved = pipeline.resolve(config);
  const int64_t ample = bytes_of(resolved, config);
  EXPECT_EQ(ample, 512 + 51'200 + 1024 + 2 * 2048);
  struct Case {
    int64_t lacking;
    std::vector<int64_t> slots;
  };
  // The encoder runs once, so that it gives its second slot first.
  for (const Case& some : std::vector<Case>{{0, {0, 0}},
                                            {1, {2, 1}},
                                            {2048, {2, 1}},
                                            {2049, {1, 1}},
                                            {3072, {1, 1}}}) {
    SCOPED_TRACE(some.lacking);
    ResolvedPlan plan = resolved;
    const int64_t memory = ample - some.lacking;
    ASSERT_EQ(choose_residents(config, {}, {memory, {}, 0}, &plan),
              absl::OkStatus());
    EXPECT_LE(bytes_of(plan, config), memory);
    std::vector<int64_t> slots;
    for (const Ring& ring : rings_of(&plan)) slots.push_back(ring.stack->slots);
    EXPECT_EQ(slots, some.slots);
  }
  // Then the smallest plan says what is needed.
  ResolvedPlan plan = resolved;
  ASSERT_EQ(choose_residents(config, {}, {ample - 3073, {}, 0}, &plan),
            absl::OkStatus());
  EXPECT_EQ(bytes_of(plan, config), ample - 3072);
}

TEST(ChooseResidents, ASetNumberOfBlocksStaysInAnyMemory) {
  const Pipeline pipeline({{1024, 2048, 1024, 4096, 1024}}, {}, {{256, 256}});
  const OffloadConfig config = layer_policy(2, {});
  const ResolvedPlan resolved = pipeline.resolve(config);
  const int64_t least = 512 + 1024 + 1024 + 4096 + 256;
  for (const int64_t memory : {kAmple, int64_t{9000}, int64_t{8000}, least}) {
    SCOPED_TRACE(memory);
    ResolvedPlan plan = resolved;
    ASSERT_EQ(choose_residents(config, {}, {memory, {}, 0}, &plan),
              absl::OkStatus());
    EXPECT_LE(bytes_of(plan, config), memory);
    EXPECT_EQ(plan.components[0].stacks[0].resident_blocks(), 2);
  }
}

TEST(ChooseResidents, ADeviceThatIsSmallerThanTheBudgetCounts) {
  const Pipeline pipeline({std::vector<int64_t>(8, 1024)}, {}, {{256, 256}});
  const OffloadConfig config = layer_policy(0, kAmple);
  ResolvedPlan plan = pipeline.resolve(config);
  ASSERT_EQ(choose_residents(config, {}, {6000, kAmple, 0}, &plan),
            absl::OkStatus());
  EXPECT_LE(bytes_of(plan, config), 6000);
  EXPECT_GT(plan.components[0].stacks[0].resident_blocks(), 0);
}

}  // namespace
}  // namespace ferry
