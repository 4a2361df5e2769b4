// Every record, wait, copy and synchronization is needed: without any one of
// them the checker, the output or the state that is left tells. So is the place
// of every tensor: without it, the audit of each component that reaches the
// tensor tells.

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "offload/make_placement_plan.h"
#include "offload/offload_config.h"
#include "offload/placed_weights.h"
#include "offload/placement_backend.h"
#include "offload/placement_plan.h"
#include "offload/plan_resolver.h"
#include "offload/tensor_group.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/mutating_platform.h"
#include "offload/testing/toy_module.h"
#include "platform/device/testing/mutating_device.h"

namespace ferry {
namespace {

struct Scenario {
  const char* name;
  bool model_level;
  int slots;
  ToyOptions options;
  // Components that run, in order.
  std::vector<size_t> passes;

  OffloadConfig policy() const {
    return model_level ? model_level_policy(true) : layerwise_policy();
  }
};

// Two DiTs, an encoder, a VAE; state that they share.
ToyOptions several() {
  ToyOptions options;
  options.dits = 2;
  options.encoders = 1;
  options.vaes = 1;
  options.shares = true;
  return options;
}

std::vector<Scenario> scenarios() {
  ToyOptions one;
  one.blocks = 5;
  one.returns_views = true;
  return {{"one slot", false, 1, one, {0, 0}},
          {"two slots", false, 2, one, {0, 0}},
          {"three slots", false, 3, one, {0, 0}},
          {"more slots than blocks", false, 6, one, {0, 0}},
          {"several rings", false, 2, several(), {2, 0, 1, 3, 2, 0, 1}},
          {"model level", true, 1, several(), {2, 0, 0, 1, 3, 2, 0}}};
}

// What a run came to.
struct Outcome {
  bool failed = false;
  std::vector<std::string> outputs;
  std::vector<std::string> state;
  std::vector<Duty> calls;
  // Calls until the last passes began, and until it was disabled.
  size_t calls_before_last = 0;
  size_t calls_before_disable = 0;
};

// Runs the passes twice, so that what the first time leaves for later is used.
Outcome run(const Scenario& scenario, size_t dropped) {
  Outcome outcome;
  SimulatedPlatform simulated(checked_device());
  ToyModule module(scenario.options);
  {
    MutatingPlatform platform(
        simulated,
        {Duty::kWait, Duty::kRecord, Duty::kSynchronize, Duty::kCopy},
        static_cast<int64_t>(dropped));
    const MutatingDevice& device = platform.mutating_device();
    PlacementBackend backend(platform, scenario.policy(), {scenario.slots});
    outcome.failed |= !backend.enable(module).ok();
    for (int round = 0; round < 2 && !outcome.failed; ++round) {
      outcome.calls_before_last = device.calls().size();
      if (round > 0) {
        outcome.failed |= !module.written_state().reset().ok();
      }
      for (const size_t component : scenario.passes) {
        const auto output = module.run(component, toy_input());
        outcome.failed |= !output.ok();
        if (output.ok()) outcome.outputs.push_back(bytes_of(*output));
      }
    }
    outcome.calls_before_disable = device.calls().size();
    outcome.failed |= !backend.disable().ok();
    outcome.calls = device.calls();
  }
  outcome.failed |= !simulated.simulated_device().violations().empty();
  // A tensor that is attached still may not be read.
  if (!outcome.failed) outcome.state = state_of(module);
  return outcome;
}

std::string to_string(Duty duty) {
  switch (duty) {
    case Duty::kWait:
      return "wait";
    case Duty::kRecord:
      return "record";
    case Duty::kSynchronize:
      return "synchronize";
    case Duty::kCopy:
      return "copy";
    case Duty::kAudit:
      return "audit";
  }
  return "";
}

TEST(OffloadMutants, NoneSurvives) {
  int mutants = 0;
  int survivors = 0;
  for (const Scenario& scenario : scenarios()) {
    const Outcome whole = run(scenario, 0);
    ASSERT_FALSE(whole.failed) << scenario.name;
    std::vector<std::string> survived;
    for (size_t nth = 1; nth <= whole.calls.size(); ++nth) {
      // What is fetched in the end is for a pass that does not come.
      if (nth > whole.calls_before_last && nth <= whole.calls_before_disable) {
        continue;
      }
      ++mutants;
      const Outcome mutant = run(scenario, nth);
      if (mutant.failed || mutant.outputs != whole.outputs ||
          mutant.state != whole.state) {
        continue;
      }
      survived.push_back(
          absl::StrCat(nth, " ", to_string(whole.calls[nth - 1])));
    }
    survivors += static_cast<int>(survived.size());
    EXPECT_EQ(survived, std::vector<std::string>())
        << scenario.name << ", " << whole.calls.size() << " calls";
  }
  std::printf("mutants: %d calls, %d survivors\n", mutants, survivors);
  EXPECT_GT(mutants, 100);
}

// All groups of a plan; what is written is in none.
std::vector<TensorGroup*> groups_of(PlacementPlan& plan) {
  std::vector<TensorGroup*> groups;
  for (TensorGroup& group : plan.resident) groups.push_back(&group);
  for (PlacementPlan::Ring& ring : plan.rings) {
    for (TensorGroup& block : ring.blocks) groups.push_back(&block);
  }
  return groups;
}

// Takes the `nth` tensor out of a plan, counted from 0; undefined behind the
// last one.
at::Tensor take_tensor(PlacementPlan& plan, size_t nth) {
  for (TensorGroup* group : groups_of(plan)) {
    if (nth >= group->tensors.size()) {
      nth -= group->tensors.size();
      continue;
    }
    const auto taken = group->tensors.begin() + static_cast<int64_t>(nth);
    at::Tensor tensor = taken->tensor;
    group->tensors.erase(taken);
    return tensor;
  }
  return {};
}

// A ring has no empty blocks.
void drop_empty_blocks(PlacementPlan& plan) {
  for (PlacementPlan::Ring& ring : plan.rings) {
    for (size_t b = ring.blocks.size(); b-- > 0;) {
      if (!ring.blocks[b].tensors.empty()) continue;
      ring.blocks.erase(ring.blocks.begin() + static_cast<int64_t>(b));
      ring.hooks.erase(ring.hooks.begin() + static_cast<int64_t>(b));
    }
  }
}

bool looks_at(const PlacementPlan::Audit& audit, const at::Tensor& tensor) {
  return std::any_of(audit.tensors.begin(), audit.tensors.end(),
                     [&](const NamedTensor& item) {
                       return item.tensor.unsafeGetTensorImpl() ==
                              tensor.unsafeGetTensorImpl();
                     });
}

// Whether there is a `nth` tensor. Without it, runs one component.
bool expect_missing_tensor_is_found(const OffloadConfig& policy, size_t nth,
                                    size_t component) {
  SimulatedPlatform platform(checked_device());
  ToyModule module(several());
  const auto resolved = resolve_offload_plan(module.tree(), policy);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  auto plan = make_placement_plan(module, *resolved, policy, 2);
  EXPECT_TRUE(plan.ok()) << plan.status();
  const at::Tensor missing = take_tensor(*plan, nth);
  if (!missing.defined()) return false;
  drop_empty_blocks(*plan);
  PlacedWeights weights(platform, "offload");
  EXPECT_EQ(weights.place(*plan), absl::OkStatus());
  const auto output = module.run(component, toy_input());
  EXPECT_EQ(output.ok(), !looks_at(plan->audits[component], missing))
      << "tensor " << nth << ", component " << component << ": "
      << output.status();
  EXPECT_EQ(weights.take_down(), absl::OkStatus());
  return true;
}

TEST(OffloadMutants, NoTensorIsOutOfPlaceUnseen) {
  int mutants = 0;
  for (const OffloadConfig& policy :
       {layerwise_policy(), model_level_policy(true)}) {
    for (size_t component = 0; component < 4; ++component) {
      for (size_t nth = 0;
           expect_missing_tensor_is_found(policy, nth, component); ++nth) {
        ++mutants;
      }
    }
  }
  std::printf("mutants: %d places\n", mutants);
  EXPECT_GT(mutants, 100);
}

}  // namespace
}  // namespace ferry
