// What holds for all tensors, pipelines, budgets and orders, tried with random
// ones.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/as_strided.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "offload/block_image.h"
#include "offload/image_layout.h"
#include "offload/offload_backend.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "offload/placement_backend.h"
#include "offload/resolved_plan.h"
#include "offload/tensor_group.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/toy_module.h"

namespace ferry {
namespace {

class Random {
 public:
  explicit Random(unsigned seed) : random_(seed) {}

  // From 0 to n - 1.
  int64_t below(int64_t n) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
  }
  bool one_in(int64_t n) { return below(n) == 0; }

  // A tensor of any dtype, sizes and strides, far into a storage of its own or,
  // sometimes, on that of one of `others`.
  at::Tensor tensor(const std::vector<NamedTensor>& others) {
    const std::vector<c10::ScalarType> dtypes = {
        c10::kFloat, c10::kDouble, c10::kHalf,  c10::kBFloat16,
        c10::kByte,  c10::kLong,   c10::kShort, c10::kFloat8_e5m2};
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    int64_t span = 1;
    for (int64_t d = below(4); d > 0; --d) {
      sizes.push_back(1 + below(4));
      strides.push_back(below(6));
      span += (sizes.back() - 1) * strides.back();
    }
    if (!others.empty() && one_in(3)) {
      const at::Tensor& other =
          others[static_cast<size_t>(
                     below(static_cast<int64_t>(others.size())))]
              .tensor;
      const int64_t elements = static_cast<int64_t>(other.storage().nbytes()) /
                               static_cast<int64_t>(other.element_size());
      if (span <= elements) {
        return other.as_strided(sizes, strides, below(elements - span + 1));
      }
    }
    const int64_t offset = below(300);
    const c10::ScalarType dtype =
        dtypes[static_cast<size_t>(below(static_cast<int64_t>(dtypes.size())))];
    return (at::arange(offset + span + below(50)) + below(100))
        .to(dtype)
        .as_strided(sizes, strides, offset);
  }

 private:
  std::mt19937_64 random_;
};

const char* data_of(const at::Tensor& tensor) {
  return static_cast<const char*>(tensor.const_data_ptr());
}

TEST(OffloadProperty, ImagesKeepAnyTensors) {
  SimulatedPlatform platform(checked_device());
  SimulatedDevice& device = platform.simulated_device();
  const StreamLease stream =
      *device.acquire_stream(StreamKind::kTransfer, "copy");
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TensorGroup group{"block", {}};
    std::vector<std::string> values;
    std::vector<at::Tensor> before;
    for (int64_t i = 1 + random.below(12); i > 0; --i) {
      group.tensors.push_back({"tensor", random.tensor(group.tensors)});
      // Keeps the storage: their distances are compared.
      before.push_back(group.tensors.back().tensor.alias());
      values.push_back(bytes_of(before.back()));
    }
    const auto image = BlockImage::pack(device, c10::Device(c10::kCPU), group);
    ASSERT_TRUE(image.ok()) << image.status();
    (*image)->attach();
    DeviceArena arena = *device.allocate((*image)->bytes(), "slot");
    ASSERT_TRUE(device
                    .copy_async(stream.get(),
                                {CopyKind::kHostToDevice, arena.data(),
                                 (*image)->host_data(), (*image)->bytes()})
                    .ok());
    ASSERT_TRUE(device.synchronize().ok());
    (*image)->bind(arena.data());
    for (size_t i = 0; i < before.size(); ++i) {
      const at::Tensor& tensor = group.tensors[i].tensor;
      EXPECT_EQ(tensor.strides(), before[i].strides());
      EXPECT_EQ(bytes_of(tensor), values[i]);
      for (size_t j = 0; j < i; ++j) {
        if (!before[i].is_alias_of(before[j])) continue;
        // What lay in one storage lies as it did.
        EXPECT_EQ(data_of(tensor) - data_of(group.tensors[j].tensor),
                  data_of(before[i]) - data_of(before[j]));
      }
    }
    (*image)->unbind();
    ASSERT_EQ((*image)->release(), absl::OkStatus());
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(bytes_of(group.tensors[i].tensor), values[i]);
    }
    ASSERT_TRUE(arena.free().ok());
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(device.violations(), std::vector<std::string>());
}

ToyOptions any_pipeline(Random& random) {
  ToyOptions options;
  options.dits = 1 + static_cast<int>(random.below(2));
  options.encoders = static_cast<int>(random.below(3));
  options.vaes = static_cast<int>(random.below(2));
  options.blocks = 1 + static_cast<int>(random.below(9));
  options.counts = random.one_in(2);
  options.returns_views = random.one_in(2);
  options.shares = random.one_in(2);
  return options;
}

// Adds the same tensors to both: to blocks, components and the root.
void add_tensors(Random& random, ToyModule& module, ToyModule& twin) {
  std::vector<std::string> places = {""};
  for (const OffloadableComponent& component : module.components()) {
    places.push_back(component.path);
    for (const BlockStack& stack : component.stacks) {
      for (const OffloadableBlock& block : stack.blocks) {
        places.push_back(block.path);
      }
    }
  }
  std::vector<NamedTensor> mine;
  std::vector<NamedTensor> twins;
  for (int64_t i = random.below(15); i > 0; --i) {
    Random same = random;
    mine.push_back({"extra", random.tensor(mine)});
    twins.push_back({"extra", same.tensor(twins)});
    const std::string& place = places[static_cast<size_t>(
        random.below(static_cast<int64_t>(places.size())))];
    const bool written = random.one_in(8);
    const std::string reason = written ? "is written by a test" : "";
    module.add_tensor(place, absl::StrCat("extra_", i), mine.back().tensor,
                      reason, written);
    twin.add_tensor(place, absl::StrCat("extra_", i), twins.back().tensor,
                    reason, written);
  }
}

DiffusionOffloadConfig any_policy(Random& random, int64_t bytes) {
  DiffusionOffloadConfig config;
  switch (random.below(4)) {
    case 0:
      config.mode = "auto";
      break;
    case 1:
      config.mode = "layer";
      config.components = std::vector<std::string>{"dit"};
      config.memory_budget_bytes = 1 + random.below(2 * bytes);
      break;
    case 2:
      config.mode = "layer";
      config.components = std::vector<std::string>{"dit"};
      config.layer_options = {{"dit", "rank-local", random.below(10)}};
      break;
    default:
      config.mode = "layer";
      config.components = std::vector<std::string>{"dit"};
  }
  if (random.one_in(2)) config.headroom_bytes = random.below(bytes);
  return config;
}

// Runs components at random, with blocks in order, or in any order, some left
// out, some repeated.
void expect_same(Random& random, ToyModule& module, ToyModule& twin) {
  for (int pass = 0; pass < 6; ++pass) {
    const auto component = static_cast<size_t>(
        random.below(static_cast<int64_t>(module.components().size())));
    const auto& stacks = module.components()[component].stacks;
    const auto blocks =
        stacks.empty() ? 0 : static_cast<int64_t>(stacks[0].blocks.size());
    std::vector<size_t> order;
    const bool is_in_order = random.one_in(2);
    for (int64_t i = 0; i < blocks; ++i) {
      order.push_back(
          static_cast<size_t>(is_in_order ? i : random.below(blocks)));
    }
    const auto offloaded = module.run(component, toy_input(), order);
    ASSERT_TRUE(offloaded.ok()) << offloaded.status();
    EXPECT_EQ(bytes_of(*offloaded),
              bytes_of(*twin.run(component, toy_input(), order)));
  }
}

TEST(OffloadProperty, AnyPipelineFitsItsBudgetAndStaysTheSame) {
  int placed = 0;
  int refused = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const ToyOptions options = any_pipeline(random);
    // Outlives the tensors that are on it.
    std::optional<SimulatedPlatform> platform;
    ToyModule module(options);
    ToyModule twin(options);
    add_tensors(random, module, twin);
    int64_t bytes = 0;
    for (const at::Tensor& tensor : module.all_tensors()) {
      bytes += static_cast<int64_t>(tensor.nbytes()) + kImageAlignment;
    }
    OmniDiffusionConfig config;
    config.diffusion_offload_config = any_policy(random, bytes);
    const auto policy = OffloadConfig::from_od_config(config);
    ASSERT_TRUE(policy.ok()) << policy.status();
    SimulatedDeviceOptions device = checked_device();
    device.memory_bytes = bytes / 4 + random.below(2 * bytes);
    platform.emplace(device);
    const std::vector<std::string> state = state_of(module);
    PlacementBackend backend(
        *platform, *policy,
        PlacementBackendOptions{1 + static_cast<int>(random.below(4))});
    const absl::Status status = backend.enable(module);
    if (status.ok()) {
      ++placed;
      const OffloadStats stats = backend.stats();
      EXPECT_LE(stats.device_bytes,
                policy->memory_budget_bytes().value_or(device.memory_bytes));
      EXPECT_LE(stats.device_bytes + policy->headroom_bytes().value_or(0),
                device.memory_bytes);
      expect_same(random, module, twin);
      EXPECT_EQ(platform->simulated_device().stats().device.bytes_peak,
                stats.device_bytes);
      ASSERT_EQ(backend.disable(), absl::OkStatus());
      EXPECT_EQ(state_of(module), package_state_of(twin));
    } else {
      ++refused;
      EXPECT_TRUE(absl::IsResourceExhausted(status) ||
                  // A ring of one block.
                  absl::IsInvalidArgument(status))
          << status;
      EXPECT_EQ(state_of(module), state);
    }
    EXPECT_EQ(module.hook_names(), std::vector<std::string>());
    EXPECT_EQ(platform->simulated_device().stats().device.bytes_in_use, 0);
    EXPECT_EQ(platform->simulated_device().violations(),
              std::vector<std::string>());
    if (testing::Test::HasFailure()) return;
  }
  // Neither is a rarity.
  EXPECT_GT(placed, 100);
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace ferry
