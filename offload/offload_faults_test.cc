// What is left after the device failed at any step of switching offload on or
// off.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "offload/offload_backend.h"
#include "offload/placement_backend.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/toy_module.h"

namespace ferry {
namespace {

constexpr FaultPoint kPoints[] = {
    FaultPoint::kAllocate,      FaultPoint::kAllocateHost,
    FaultPoint::kAcquireStream, FaultPoint::kCreateEvent,
    FaultPoint::kRecord,        FaultPoint::kWait,
    FaultPoint::kCopy,          FaultPoint::kSynchronize,
    FaultPoint::kCopyRun};

// More than there are calls of a point while a toy is enabled.
constexpr int kMostCalls = 500;

// Events are many of a kind.
int step(FaultPoint point) {
  return point == FaultPoint::kCreateEvent ? 23 : 1;
}

class OffloadFaultsTest : public testing::TestWithParam<bool> {
 protected:
  OffloadFaultsTest() {
    options_.dits = 2;
    options_.encoders = 1;
    options_.shares = true;
  }

  static std::unique_ptr<OffloadBackend> make_backend(Platform& platform) {
    return std::make_unique<PlacementBackend>(
        platform, GetParam() ? model_level_policy(false) : layerwise_policy(),
        PlacementBackendOptions{2});
  }

  // Ordinary tensors with the values that they had, and no hook.
  static void expect_untouched(const ToyModule& module,
                               const std::vector<std::string>& state) {
    EXPECT_EQ(module.hook_names(), std::vector<std::string>());
    EXPECT_EQ(state_of(module), state);
    for (const at::Tensor& tensor : module.all_tensors()) {
      tensor.mul_(2);
      tensor.mul_(0.5);
    }
    EXPECT_EQ(state_of(module), state);
  }

  ToyOptions options_;
};

INSTANTIATE_TEST_SUITE_P(Backends, OffloadFaultsTest, testing::Bool());

TEST_P(OffloadFaultsTest, EnableFailsAtAnyStepAndLeavesNothing) {
  int failures = 0;
  for (const FaultPoint point : kPoints) {
    for (int nth = 1; nth <= kMostCalls; nth += step(point)) {
      SimulatedPlatform platform(checked_device());
      SimulatedDevice& device = platform.simulated_device();
      ToyModule module(options_);
      ToyModule twin(options_);
      const std::vector<std::string> state = state_of(module);
      const auto backend = make_backend(platform);
      device.faults().fail(point, nth);
      const absl::Status status = backend->enable(module);
      if (status.ok()) {
        // The fault shall not come any more.
        device.faults().fail(point, int64_t{1} << 40);
        ASSERT_EQ(backend->disable().ok() || point == FaultPoint::kCopyRun,
                  true);
        // A copy that fails on its way is found at the next call.
        if (point != FaultPoint::kCopyRun) break;
        continue;
      }
      ++failures;
      EXPECT_FALSE(backend->is_enabled());
      expect_untouched(module, state);
      EXPECT_EQ(device.stats().device.bytes_in_use, 0);
      EXPECT_EQ(device.violations(), std::vector<std::string>());
      if (point == FaultPoint::kCopyRun) continue;
      ASSERT_EQ(backend->enable(module), absl::OkStatus());
      const auto offloaded = module.run(0, toy_input());
      ASSERT_TRUE(offloaded.ok()) << offloaded.status();
      EXPECT_EQ(bytes_of(*offloaded), bytes_of(*twin.run(0, toy_input())));
      ASSERT_EQ(backend->disable(), absl::OkStatus());
    }
  }
  EXPECT_GT(failures, 10);
}

TEST_P(OffloadFaultsTest, DisableFailsAtAnyStepAndCanBeTriedAgain) {
  int failures = 0;
  for (const FaultPoint point : kPoints) {
    if (point == FaultPoint::kCopyRun) continue;
    for (int nth = 1; nth <= kMostCalls; ++nth) {
      SimulatedPlatform platform(checked_device());
      ToyModule module(options_);
      ToyModule twin(options_);
      const auto backend = make_backend(platform);
      ASSERT_EQ(backend->enable(module), absl::OkStatus());
      ASSERT_TRUE(module.run(0, toy_input()).ok());
      ASSERT_TRUE(twin.run(0, toy_input()).ok());
      platform.simulated_device().faults().fail(point, nth);
      const absl::Status status = backend->disable();
      if (status.ok()) break;
      ++failures;
      EXPECT_TRUE(backend->is_enabled());
      ASSERT_EQ(backend->disable(), absl::OkStatus());
      EXPECT_FALSE(backend->is_enabled());
      expect_untouched(module, package_state_of(twin));
      EXPECT_EQ(platform.simulated_device().stats().device.bytes_in_use, 0);
    }
  }
  // Only to wait for the device.
  EXPECT_GE(failures, 1);
}

TEST_P(OffloadFaultsTest, AHookThatIsTakenUndoesEverything) {
  class OthersHook : public ModelHook {
   public:
    explicit OthersHook(std::string name) : name_(std::move(name)) {}
    const std::string& name() const override { return name_; }
    absl::Status pre_forward() override { return absl::OkStatus(); }
    absl::Status post_forward(ForwardOutput& /*output*/) override {
      return absl::OkStatus();
    }

   private:
    const std::string name_;
  };
  SimulatedPlatform platform(checked_device());
  ToyModule module(options_);
  const std::vector<std::string> state = state_of(module);
  const std::string name = "offload.audit";
  HookRegistry* const hooks = module.components().back().hooks;
  ASSERT_TRUE(hooks->add(std::make_unique<OthersHook>(name)).ok());
  const auto backend = make_backend(platform);
  EXPECT_EQ(backend->enable(module).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(module.hook_names(), std::vector<std::string>{name});
  ASSERT_TRUE(hooks->remove(name).ok());
  expect_untouched(module, state);
}

TEST_P(OffloadFaultsTest, AModuleThatAnotherBackendHoldsIsLeftAlone) {
  SimulatedPlatform platform(checked_device());
  SimulatedPlatform other_platform(checked_device());
  ToyModule module(options_);
  ToyModule twin(options_);
  const auto owner = make_backend(platform);
  ASSERT_EQ(owner->enable(module), absl::OkStatus());
  const std::vector<std::string> hooks = module.hook_names();
  // In the middle of a generation.
  EXPECT_EQ(bytes_of(*module.run(0, toy_input())),
            bytes_of(*twin.run(0, toy_input())));
  for (const OffloadConfig& config :
       {layerwise_policy(), model_level_policy(false)}) {
    PlacementBackend other(other_platform, config, {});
    const absl::Status status = other.enable(module);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_EQ(status.message(),
              "shift is held by another offload backend, as a part of shared "
              "state; disable that one first");
    EXPECT_FALSE(other.is_enabled());
    EXPECT_EQ(other_platform.simulated_device().stats().device.bytes_peak, 0);
    EXPECT_EQ(other_platform.simulated_device().stats().host.bytes_peak, 0);
  }
  EXPECT_EQ(module.hook_names(), hooks);
  for (const size_t component : {0, 1, 2, 0}) {
    const auto output = module.run(component, toy_input());
    ASSERT_TRUE(output.ok()) << output.status();
    EXPECT_EQ(bytes_of(*output), bytes_of(*twin.run(component, toy_input())));
  }
  ASSERT_EQ(owner->disable(), absl::OkStatus());
  EXPECT_EQ(state_of(module), package_state_of(twin));
  // Free again.
  PlacementBackend other(other_platform, layerwise_policy(), {});
  EXPECT_EQ(other.enable(module), absl::OkStatus());
}

TEST_P(OffloadFaultsTest, DestroyedWhileEnabledItGivesTheTensorsBack) {
  SimulatedPlatform platform(checked_device());
  ToyModule module(options_);
  const std::vector<std::string> state = state_of(module);
  {
    const auto backend = make_backend(platform);
    ASSERT_EQ(backend->enable(module), absl::OkStatus());
  }
  expect_untouched(module, state);
}

TEST_P(OffloadFaultsTest, AFailedDeviceStillGivesTheTensorsBack) {
  SimulatedPlatform platform(checked_device());
  ToyModule module(options_);
  const std::vector<std::string> state = state_of(module);
  {
    const auto backend = make_backend(platform);
    ASSERT_EQ(backend->enable(module), absl::OkStatus());
    platform.simulated_device().faults().fail(FaultPoint::kCopyRun, 1);
    for (int pass = 0; pass < 4; ++pass) (void)module.run(0, toy_input());
    EXPECT_FALSE(module.run(0, toy_input()).ok());
    EXPECT_FALSE(backend->disable().ok());
    EXPECT_TRUE(backend->is_enabled());
  }
  EXPECT_EQ(module.hook_names(), std::vector<std::string>());
  EXPECT_EQ(state_of(module), state);
}

}  // namespace
}  // namespace ferry
