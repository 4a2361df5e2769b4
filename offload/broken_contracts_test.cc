// Calls that a header forbids end the process, wherever they come from.

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "offload/make_view.h"
#include "offload/module_tree.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "offload/open_arena.h"
#include "offload/placement_backend.h"
#include "offload/plan_resolver.h"
#include "offload/resolved_plan.h"
#include "offload/storage_ownership.h"
#include "offload/testing/checked_platform.h"
#include "offload/torch_status.h"
#include "platform/device/get_platform.h"
#include "platform/device/host_arena.h"

namespace ferry {
namespace {

OffloadConfig policy(const std::string& mode, const std::string& transfer) {
  OmniDiffusionConfig config;
  DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
  compact.mode = mode;
  if (!transfer.empty()) {
    compact.components = std::vector<std::string>{"dit"};
    compact.layer_options = {{"dit", transfer, std::nullopt}};
  }
  config.parallel_config.data_parallel_size = 2;
  return *OffloadConfig::from_od_config(config);
}

ModuleTree tree_of(size_t modules) {
  ModuleTree tree;
  tree.nodes.resize(modules);
  return tree;
}

void give_a_block_to_two_stacks() {
  ResolvedPlan plan;
  PlannedComponent& component = plan.components.emplace_back();
  component.module = 1;
  for (int stack = 0; stack < 2; ++stack) {
    component.stacks.emplace_back().blocks.emplace_back().module = 2;
  }
  assign_storages(tree_of(3), &plan);
}

void keep_another_arena() {
  SimulatedPlatform platform(checked_device());
  const HostArena arena = *platform.device()->allocate_host(64, "arena");
  const auto open = *OpenArena::open(arena, 64);
  open->keep(*platform.device()->allocate_host(64, "another one"));
}

void place_on_the_host() {
  const auto platform = *get_platform({"cpu"});
  const PlacementBackend backend(*platform, layerwise_policy(), {});
}

void gather_alone() {
  SimulatedPlatform platform(checked_device());
  const PlacementBackend backend(platform, policy("layer", "allgather"), {});
}

struct BrokenContract {
  const char* name;
  std::function<void()> call;
  const char* text;
};

std::ostream& operator<<(std::ostream& out, const BrokenContract& contract) {
  return out << contract.name;
}

class BrokenContractsDeathTest : public testing::TestWithParam<BrokenContract> {
};

TEST_P(BrokenContractsDeathTest, EndTheProcess) {
  EXPECT_DEATH(GetParam().call(),
               std::string("offload/.*check failed: ") + GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    Calls, BrokenContractsDeathTest,
    testing::ValuesIn(std::vector<BrokenContract>{
        {"AStrategyIsSetAlready",
         [] { (void)layerwise_policy().with_strategy(OffloadStrategy::kNone); },
         "is_automatic_"},
        {"GatheringIsDecidedAlready",
         [] { (void)layerwise_policy().with_allgather(); }, "is_automatic_"},
        {"APlanOfNoStrategy",
         [] { (void)resolve_offload_plan(tree_of(1), policy("auto", "")); },
         "!config.is_automatic\\(\\)"},
        {"ABlockOfTwoStacks", give_a_block_to_two_stacks, "!mover.is_block"},
        {"NoException", [] { (void)current_exception_status("nowhere"); },
         "std::current_exception\\(\\) != nullptr"},
        {"AnotherArena", keep_another_arena, "arena.data\\(\\) != nullptr"},
        {"NoArena", [] { OpenArena(HostAccess()).keep(HostArena()); },
         "arena.data\\(\\) != nullptr"},
        {"FewerViewsThanTensors", [] { set_data_of_all({at::zeros({1})}, {}); },
         "tensors.size\\(\\) == views.size\\(\\) \\(1 and 0\\)"},
        {"APlatformThatCannotOffload", place_on_the_host,
         "platform.supports_cpu_offload\\(\\)"},
        {"GatheredByNobody", gather_alone, "group_ != nullptr"},
    }),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ferry
