// What stays on the device has no page-locked copy on the host.

#include <ATen/core/Tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "offload/offload_config.h"
#include "offload/offload_stats.h"
#include "offload/omni_diffusion_config.h"
#include "offload/placement_backend.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/toy_module.h"

namespace ferry {
namespace {

OffloadConfig policy_of(const std::string& mode, int64_t resident_layers) {
  OmniDiffusionConfig config;
  DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
  compact.mode = mode;
  if (mode == "layer") {
    compact.components = std::vector<std::string>{"dit"};
    compact.layer_options = {{"dit", "rank-local", std::nullopt}};
    if (resident_layers > 0) {
      compact.layer_options[0].resident_layers = resident_layers;
    }
  }
  return *OffloadConfig::from_od_config(config);
}

std::set<const void*> storages_of(const ToyModule& module) {
  std::set<const void*> storages;
  for (const at::Tensor& tensor : module.all_tensors()) {
    storages.insert(tensor.storage().unsafeGetStorageImpl());
  }
  return storages;
}

struct Case {
  const char* name;
  const char* mode;
  int64_t resident_layers;
  int64_t streamed_blocks;
};

class ResidentWeightsTest : public testing::TestWithParam<Case> {};

TEST_P(ResidentWeightsTest, OnlyWhatIsStreamedIsPageLocked) {
  SimulatedPlatform platform(checked_device());
  ToyOptions options;
  options.blocks = 6;
  options.encoders = 1;
  ToyModule module(options);
  ToyModule twin(options);
  const std::vector<std::string> state = state_of(module);
  const std::set<const void*> storages = storages_of(module);
  PlacementBackend backend(
      platform, policy_of(GetParam().mode, GetParam().resident_layers), {});
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(backend.enable(module), absl::OkStatus());
    const OffloadStats stats = backend.stats();
    const DeviceStats device = platform.simulated_device().stats();
    const int64_t written = module.written_state().bytes();
    EXPECT_EQ(stats.streamed_bytes > 0, GetParam().streamed_blocks > 0);
    // Each image in whole pages.
    EXPECT_GE(device.host.bytes_in_use, stats.streamed_bytes + written);
    EXPECT_LE(device.host.bytes_in_use,
              stats.streamed_bytes + written +
                  (GetParam().streamed_blocks + 1) * 4096);
    EXPECT_EQ(stats.host_bytes, stats.resident_bytes + stats.streamed_bytes);
    for (const size_t component : {0, 1, 0}) {
      EXPECT_EQ(bytes_of(*module.run(component, toy_input())),
                bytes_of(*twin.run(component, toy_input())));
    }
    ASSERT_EQ(backend.disable(), absl::OkStatus());
    EXPECT_EQ(platform.simulated_device().violations(),
              std::vector<std::string>());
    EXPECT_EQ(state_of(module), state);
    ASSERT_EQ(twin.written_state().reset(), absl::OkStatus());
  }
  // What stayed has the memory that it had.
  std::set<const void*> same;
  for (const void* storage : storages_of(module)) {
    if (storages.count(storage) > 0) same.insert(storage);
  }
  const int64_t left = options.blocks - GetParam().streamed_blocks;
  EXPECT_GE(static_cast<int64_t>(same.size()), 3 * left);
}

INSTANTIATE_TEST_SUITE_P(Plans, ResidentWeightsTest,
                         testing::Values(Case{"AllStay", "auto", 0, 0},
                                         Case{"HalfStays", "layer", 3, 3},
                                         Case{"AllStreamed", "layer", 0, 6}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ferry
