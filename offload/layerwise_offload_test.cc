#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "offload/forward_output.h"
#include "offload/hook_registry.h"
#include "offload/model_hook.h"
#include "offload/offload_backend.h"
#include "offload/placement_backend.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/toy_module.h"

namespace ferry {
namespace {

using Order = std::vector<size_t>;

// A pipeline that is offloaded, and its resident twin.
class LayerwiseOffloadTest : public testing::Test {
 protected:
  LayerwiseOffloadTest() : platform_(checked_device()) {}

  ~LayerwiseOffloadTest() override {
    EXPECT_EQ(device().violations(), std::vector<std::string>());
    EXPECT_EQ(device().stats().device.bytes_in_use, 0);
  }

  void start(const ToyOptions& options, int slots) {
    module_ = std::make_unique<ToyModule>(options);
    twin_ = std::make_unique<ToyModule>(options);
    backend_ = std::make_unique<PlacementBackend>(
        platform_, layerwise_policy(), PlacementBackendOptions{slots});
    ASSERT_EQ(backend_->enable(*module_), absl::OkStatus());
  }

  void expect_same(size_t component, const Order& order) {
    const auto offloaded = module_->run(component, toy_input(), order);
    ASSERT_TRUE(offloaded.ok()) << offloaded.status();
    const auto resident = twin_->run(component, toy_input(), order);
    EXPECT_EQ(bytes_of(*offloaded), bytes_of(*resident));
  }

  void stop() {
    ASSERT_EQ(backend_->disable(), absl::OkStatus());
    EXPECT_EQ(module_->hook_names(), std::vector<std::string>());
    EXPECT_EQ(state_of(*module_), package_state_of(*twin_));
  }

  SimulatedDevice& device() { return platform_.simulated_device(); }

  SimulatedPlatform platform_;
  std::unique_ptr<ToyModule> module_;
  std::unique_ptr<ToyModule> twin_;
  std::unique_ptr<PlacementBackend> backend_;
};

Order in_order(int blocks) {
  Order order;
  for (int i = 0; i < blocks; ++i) order.push_back(static_cast<size_t>(i));
  return order;
}

// Rings share the streams that a device has.
TEST_F(LayerwiseOffloadTest, RingsOfEveryNumber) {
  for (const int rings : {2, 8, 9, 33, 100, 300}) {
    SCOPED_TRACE(rings);
    ToyOptions options;
    options.dits = rings;
    options.blocks = 3;
    start(options, 2);
    // Ahead of each other, and again.
    for (const int step : {1, 7, rings - 1}) {
      int ring = 0;
      for (int turn = 0; turn < rings; ++turn) {
        expect_same(static_cast<size_t>(ring), {0, 1, 2});
        ring = (ring + step) % rings;
      }
    }
    EXPECT_EQ(backend_->stats().demand_fetches, 0);
    stop();
  }
}

TEST_F(LayerwiseOffloadTest, SlotsAndBlocksOfEveryNumber) {
  for (int blocks = 1; blocks <= 9; ++blocks) {
    for (int slots = 1; slots <= 4; ++slots) {
      ToyOptions options;
      options.blocks = blocks;
      start(options, slots);
      for (int pass = 0; pass < 3; ++pass) expect_same(0, in_order(blocks));
      const OffloadStats stats = backend_->stats();
      EXPECT_EQ(stats.demand_fetches, 0) << blocks << " " << slots;
      // A ring of no more blocks than slots is copied once, another one in
      // every pass, and what comes next is on its way.
      const int64_t block_bytes = stats.streamed_bytes / blocks;
      const int copies = blocks <= slots ? blocks : 3 * blocks + slots;
      EXPECT_EQ(stats.h2d_bytes, copies * block_bytes)
          << blocks << " " << slots;
      stop();
    }
  }
}

// Blocks of sizes that are given in units of 1024 bytes, beside a constant.
class UnequalBlocksTest : public LayerwiseOffloadTest {
 protected:
  void start_unequal(const std::vector<int64_t>& units, int slots) {
    ToyOptions options;
    options.blocks = static_cast<int>(units.size());
    module_ = std::make_unique<ToyModule>(options);
    twin_ = std::make_unique<ToyModule>(options);
    for (size_t b = 0; b < units.size(); ++b) {
      if (units[b] == 0) continue;
      for (ToyModule* module : {module_.get(), twin_.get()}) {
        module->add_tensor(absl::StrCat("dit_0.blocks.", b), "more",
                           at::full({256 * units[b]}, 1.5));
      }
    }
    backend_ = std::make_unique<PlacementBackend>(
        platform_, layerwise_policy(), PlacementBackendOptions{slots});
    ASSERT_EQ(backend_->enable(*module_), absl::OkStatus());
  }

  // Of slots, for images of blocks without more.
  int64_t slot_bytes() const {
    const OffloadStats stats = backend_->stats();
    return stats.device_bytes - stats.resident_bytes;
  }
};

TEST_F(UnequalBlocksTest, TwoSlotsAreAsLargeAsTwoNeighbours) {
  start_unequal({0, 0, 0, 0, 0}, 2);
  const int64_t equal = slot_bytes();
  stop();
  start_unequal({0, 0, 500, 0, 0}, 2);
  EXPECT_EQ(slot_bytes(), equal + 500 * 1024);
  for (int pass = 0; pass < 3; ++pass) expect_same(0, in_order(5));
  // Nothing waits for a place: what follows is on its way.
  EXPECT_EQ(backend_->stats().demand_fetches, 0);
  stop();
  start_unequal({30, 2, 30, 2}, 2);
  EXPECT_EQ(slot_bytes(), equal + 32 * 1024);
  stop();
}

TEST_F(UnequalBlocksTest, AnyOrderOfCallsIsCorrect) {
  std::mt19937 random(8);
  for (int round = 0; round < 80; ++round) {
    SCOPED_TRACE(round);
    std::vector<int64_t> units;
    for (unsigned b = 2 + random() % 6; b > 0; --b) {
      units.push_back(random() % 3 == 0 ? random() % 40 : random() % 3);
    }
    start_unequal(units, 1 + round % 5);
    const auto blocks = static_cast<unsigned>(units.size());
    for (int pass = 0; pass < 5; ++pass) {
      Order order = in_order(static_cast<int>(blocks));
      if (pass % 2 == 1) {
        for (size_t& block : order) block = random() % blocks;
      }
      expect_same(0, order);
      if (pass == 3) {
        EXPECT_EQ(module_->abandon(0, random() % blocks), absl::OkStatus());
        EXPECT_EQ(twin_->abandon(0, 0), absl::OkStatus());
      }
    }
    stop();
  }
}

TEST_F(UnequalBlocksTest, InOrderEveryBlockIsThereInTime) {
  std::mt19937 random(21);
  for (int round = 0; round < 60; ++round) {
    std::vector<int64_t> units;
    for (unsigned b = 2 + random() % 8; b > 0; --b) {
      units.push_back(random() % 2 == 0 ? random() % 30 : 0);
    }
    start_unequal(units, 1 + round % 5);
    for (int pass = 0; pass < 4; ++pass) {
      expect_same(0, in_order(static_cast<int>(units.size())));
    }
    EXPECT_EQ(backend_->stats().demand_fetches, 0) << round;
    stop();
  }
}

TEST_F(LayerwiseOffloadTest, AnyOrderOfCallsIsCorrect) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    ToyOptions options;
    options.blocks = 2 + static_cast<int>(random() % 6);
    options.returns_views = round % 2 == 0;
    start(options, 1 + round % 4);
    for (int pass = 0; pass < 4; ++pass) {
      Order order;
      for (int call = 0; call < 8; ++call) {
        order.push_back(random() % static_cast<unsigned>(options.blocks));
      }
      expect_same(0, order);
    }
    stop();
  }
}

TEST_F(LayerwiseOffloadTest, SkippedBlocksDoNotHoldSlots) {
  ToyOptions options;
  options.blocks = 6;
  start(options, 2);
  const Order every_second = {0, 2, 4};
  for (int pass = 0; pass < 2; ++pass) expect_same(0, every_second);
  const int64_t before = backend_->stats().h2d_bytes;
  for (int pass = 0; pass < 4; ++pass) expect_same(0, every_second);
  const OffloadStats stats = backend_->stats();
  // Each call fetches at most what follows it.
  EXPECT_LE(stats.h2d_bytes - before, 4 * 6 * stats.streamed_bytes / 6);
  stop();
}

TEST_F(LayerwiseOffloadTest, OutputsThatAreViewsOfWeightsAreCopied) {
  ToyOptions options;
  options.returns_views = true;
  start(options, 2);
  expect_same(0, in_order(4));
  EXPECT_EQ(backend_->stats().cloned_outputs, 4);
  stop();
}

TEST_F(LayerwiseOffloadTest, SeveralRings) {
  ToyOptions options;
  options.dits = 2;
  options.encoders = 1;
  options.vaes = 1;
  options.shares = true;
  start(options, 2);
  for (const size_t component : {2, 0, 1, 1, 0, 3, 2, 0}) {
    expect_same(component, component == 3 ? Order{} : in_order(4));
  }
  stop();
}

TEST_F(LayerwiseOffloadTest, AnAbandonedPassLeavesItUsable) {
  for (int slots = 1; slots <= 3; ++slots) {
    start({}, slots);
    expect_same(0, in_order(4));
    for (size_t block = 0; block < 4; ++block) {
      EXPECT_EQ(module_->abandon(0, block), absl::OkStatus());
      expect_same(0, in_order(4));
    }
    stop();
  }
}

TEST_F(LayerwiseOffloadTest, AnErrorOfTheDeviceEndsThePassOnly) {
  start({}, 2);
  expect_same(0, in_order(4));
  for (const FaultPoint point :
       {FaultPoint::kRecord, FaultPoint::kWait, FaultPoint::kCopy}) {
    for (int nth = 1; nth <= 6; ++nth) {
      device().faults().fail(point, nth);
      const auto failed = module_->run(0, toy_input());
      if (failed.ok()) {
        // The fault hits what is fetched for the next pass.
        ASSERT_TRUE(twin_->run(0, toy_input()).ok());
      }
      device().faults().fail(point, 1000);
      expect_same(0, in_order(4));
    }
  }
  stop();
}

TEST_F(LayerwiseOffloadTest, AllocatesNothingInTheSteadyState) {
  start({}, 2);
  expect_same(0, in_order(4));
  const DeviceStats before = device().stats();
  for (int pass = 0; pass < 5; ++pass) expect_same(0, in_order(4));
  const DeviceStats after = device().stats();
  EXPECT_EQ(after.device.allocations, before.device.allocations);
  EXPECT_EQ(after.host.allocations, before.host.allocations);
  EXPECT_EQ(after.device_to_host.count, 0);
  EXPECT_EQ(after.pageable.count, 0);
  EXPECT_EQ(device().faults().calls(FaultPoint::kSynchronize),
            1 /* when it was enabled */);
  // One copy a block.
  EXPECT_EQ(after.host_to_device.count - before.host_to_device.count, 5 * 4);
  stop();
}

TEST_F(LayerwiseOffloadTest, DeviceMemoryIsResidentStateAndSlots) {
  start({}, 2);
  const OffloadStats stats = backend_->stats();
  EXPECT_EQ(device().stats().device.bytes_in_use, stats.device_bytes);
  EXPECT_LT(stats.device_bytes, stats.resident_bytes + stats.streamed_bytes);
  stop();
  EXPECT_EQ(backend_->stats().device_bytes, 0);
}

TEST_F(LayerwiseOffloadTest, EnableAndDisableAnyNumberOfTimes) {
  start({}, 2);
  EXPECT_EQ(backend_->enable(*module_).code(),
            absl::StatusCode::kFailedPrecondition);
  for (int round = 0; round < 10; ++round) {
    expect_same(0, in_order(4));
    stop();
    EXPECT_EQ(backend_->disable(), absl::OkStatus());
    EXPECT_FALSE(backend_->is_enabled());
    // Ordinary and writable in between.
    for (ToyModule* module : {module_.get(), twin_.get()}) {
      for (const at::Tensor& tensor : module->all_tensors()) tensor.mul_(1.01);
    }
    ASSERT_EQ(backend_->enable(*module_), absl::OkStatus());
  }
  stop();
}

TEST_F(LayerwiseOffloadTest, HostMemoryDoesNotGrowOverRounds) {
  start({}, 2);
  stop();
  const int64_t once = device().stats().host.bytes_in_use;
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(backend_->enable(*module_), absl::OkStatus());
    stop();
  }
  EXPECT_EQ(device().stats().host.bytes_in_use, once);
}

// What other hooks do: one counts calls, one changes what a block returns, as a
// cache does that remembers it.
class OthersHook : public ModelHook {
 public:
  OthersHook(std::string name, double factor)
      : name_(std::move(name)), factor_(factor) {}

  const std::string& name() const override { return name_; }
  absl::Status pre_forward() override {
    ++calls_;
    return absl::OkStatus();
  }
  absl::Status post_forward(ForwardOutput& output) override {
    output.replace_tensors(
        [&](const at::Tensor& tensor) { return tensor * factor_; });
    return absl::OkStatus();
  }
  int calls() const { return calls_; }

 private:
  const std::string name_;
  const double factor_;
  int calls_ = 0;
};

TEST_F(LayerwiseOffloadTest, OthersHooksComposeAndStay) {
  ToyOptions options;
  options.returns_views = true;
  // Before it and after it.
  start(options, 2);
  ASSERT_EQ(backend_->disable(), absl::OkStatus());
  for (ToyModule* module : {module_.get(), twin_.get()}) {
    HookRegistry* const hooks =
        module->components()[0].stacks[0].blocks[1].hooks;
    ASSERT_TRUE(hooks->add(std::make_unique<OthersHook>("cache", 0.5)).ok());
  }
  ASSERT_EQ(backend_->enable(*module_), absl::OkStatus());
  OthersHook* profiler = nullptr;
  for (ToyModule* module : {twin_.get(), module_.get()}) {
    auto hook = std::make_unique<OthersHook>("profiler", 1.0);
    profiler = hook.get();
    HookRegistry* const hooks =
        module->components()[0].stacks[0].blocks[1].hooks;
    ASSERT_TRUE(hooks->add(std::move(hook)).ok());
  }
  expect_same(0, in_order(4));
  // A cache that skips blocks.
  expect_same(0, {0, 3});
  expect_same(0, {1, 1, 2});
  EXPECT_EQ(profiler->calls(), 3);
  ASSERT_EQ(backend_->disable(), absl::OkStatus());
  EXPECT_EQ(module_->hook_names(),
            (std::vector<std::string>{"cache", "profiler"}));
}

TEST_F(LayerwiseOffloadTest, AnAllocationThatFailsOnceIsTriedAgain) {
  ToyModule module({});
  PlacementBackend backend(platform_, layerwise_policy(), {2});
  for (int nth = 1; nth <= 2; ++nth) {
    device().faults().fail(FaultPoint::kAllocate, nth);
    EXPECT_EQ(backend.enable(module), absl::OkStatus()) << nth;
    ASSERT_EQ(backend.disable(), absl::OkStatus());
  }
}

TEST_F(LayerwiseOffloadTest, TooLittleMemoryIsSaidWithNumbers) {
  SimulatedDeviceOptions options = checked_device();
  options.memory_bytes = 4096;
  SimulatedPlatform small(options);
  ToyModule module({});
  const std::vector<std::string> before = state_of(module);
  PlacementBackend backend(small, layerwise_policy(), {2});
  const absl::Status status = backend.enable(module);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(status.message(), "denoise needs ")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "are free")) << status;
  EXPECT_EQ(state_of(module), before);
  EXPECT_FALSE(backend.is_enabled());
}

}  // namespace
}  // namespace ferry
