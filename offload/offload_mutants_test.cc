// Every record, wait, copy and synchronization is needed: without any one of
// them the checker, the output or the state that is left tells.

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "offload/offload_backend.h"
#include "offload/placement_backend.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/dropping_platform.h"
#include "offload/testing/toy_module.h"

namespace ferry {
namespace {

struct Scenario {
  const char* name;
  bool model_level;
  int slots;
  ToyOptions options;
  // Components that run, in order.
  std::vector<size_t> passes;
};

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
          {"several rings", false, 2, several, {2, 0, 1, 3, 2, 0, 1}},
          {"model level", true, 1, several, {2, 0, 0, 1, 3, 2, 0}}};
}

// What a run came to.
struct Outcome {
  bool failed = false;
  std::vector<std::string> outputs;
  std::vector<std::string> state;
  std::vector<std::string> calls;
  // Calls until the last passes began, and until it was disabled.
  size_t calls_before_last = 0;
  size_t calls_before_disable = 0;
};

// Runs the passes twice, so that what the first time leaves for later is used.
Outcome run(const Scenario& scenario, int64_t dropped) {
  Outcome outcome;
  SimulatedPlatform simulated(checked_device());
  ToyModule module(scenario.options);
  {
    DroppingPlatform platform(simulated);
    DroppingDevice& device = platform.dropping_device();
    device.drop(dropped);
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

// Calls whose order another call of the same run gives as well: of two blocks
// that are fetched at once, either wait will do, and the last fetch of a run
// has made the copy stream wait for what disable() waits for. Neither can be
// left out for that.
constexpr int kCoveredTwice = 26;

TEST(OffloadMutants, NoneSurvivesButWhatIsCoveredTwice) {
  int mutants = 0;
  int survivors = 0;
  for (const Scenario& scenario : scenarios()) {
    const Outcome whole = run(scenario, 0);
    ASSERT_FALSE(whole.failed) << scenario.name;
    for (size_t nth = 1; nth <= whole.calls.size(); ++nth) {
      // What is fetched in the end is for a pass that does not come.
      if (nth > whole.calls_before_last && nth <= whole.calls_before_disable) {
        continue;
      }
      ++mutants;
      const Outcome mutant = run(scenario, static_cast<int64_t>(nth));
      if (mutant.failed || mutant.outputs != whole.outputs ||
          mutant.state != whole.state) {
        continue;
      }
      ++survivors;
      std::printf("%s: call %zu of %zu, %s, is not missed\n", scenario.name,
                  nth, whole.calls.size(), whole.calls[nth - 1].c_str());
    }
  }
  std::printf("mutants: %d, survivors: %d\n", mutants, survivors);
  EXPECT_GT(mutants, 100);
  EXPECT_LE(survivors, kCoveredTwice);
}

}  // namespace
}  // namespace ferry
