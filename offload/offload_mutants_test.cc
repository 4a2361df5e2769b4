// Every record, wait, copy and synchronization is needed: without any one of
// them the checker, the output or the state that is left tells.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "offload/offload_backend.h"
#include "offload/placement_backend.h"
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
  // Most mutants that may survive.
  int covered = 0;
};

// All rings share one copy stream, whose copies run in order. Where one ring
// has fetched blocks for its next pass and another ring runs before that, to
// wait for the other's copies is to wait for these too; what the first ring
// records and waits for at the end of its pass is then covered. A ring that
// runs alone needs every call, as the scenarios with one show.
constexpr int kCoveredByOtherRings = 22;

std::vector<Scenario> scenarios() {
  ToyOptions one;
  one.blocks = 5;
  one.returns_views = true;
  ToyOptions several;
  several.dits = 2;
  several.encoders = 1;
  several.vaes = 1;
  several.shares = true;
  return {{"one slot", false, 1, one, {0, 0}},
          {"two slots", false, 2, one, {0, 0}},
          {"three slots", false, 3, one, {0, 0}},
          {"more slots than blocks", false, 6, one, {0, 0}},
          {"several rings",
           false,
           2,
           several,
           {2, 0, 1, 3, 2, 0, 1},
           kCoveredByOtherRings},
          {"model level", true, 1, several, {2, 0, 0, 1, 3, 2, 0}}};
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
    PlacementBackend backend(
        platform,
        scenario.model_level ? model_level_policy(true) : layerwise_policy(),
        {scenario.slots});
    outcome.failed |= !backend.enable(module).ok();
    for (int round = 0; round < 2 && !outcome.failed; ++round) {
      outcome.calls_before_last = device.calls().size();
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

TEST(OffloadMutants, NoneSurvivesUncovered) {
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
    EXPECT_LE(static_cast<int>(survived.size()), scenario.covered)
        << scenario.name << ", " << whole.calls.size()
        << " calls: " << absl::StrJoin(survived, ", ");
  }
  std::printf("mutants: %d, survivors: %d\n", mutants, survivors);
  EXPECT_GT(mutants, 100);
}

}  // namespace
}  // namespace ferry
