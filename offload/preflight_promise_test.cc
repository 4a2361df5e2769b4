// What enable() finds to be needed is enough: neither the device's memory nor
// the host's is ever used beyond it.

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "offload/host_memory_left.h"
#include "offload/placement_backend.h"
#include "offload/preflight.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/toy_module.h"
#include "platform/device/device_stats.h"

namespace ferry {
namespace {

OffloadConfig policy_of(const DiffusionOffloadConfig& compact) {
  OmniDiffusionConfig config;
  config.diffusion_offload_config = compact;
  return *OffloadConfig::from_od_config(config);
}

DiffusionOffloadConfig layers_of_dit() {
  DiffusionOffloadConfig config;
  config.mode = "layer";
  config.components = std::vector<std::string>{"dit"};
  return config;
}

std::vector<std::pair<std::string, OffloadConfig>> policies() {
  std::vector<std::pair<std::string, OffloadConfig>> all = {
      {"layer", layerwise_policy()},
      {"module", model_level_policy(false)},
      {"module and vae", model_level_policy(true)},
      {"layer of dit", policy_of(layers_of_dit())}};
  DiffusionOffloadConfig config = layers_of_dit();
  config.layer_options = {{"dit", "rank-local", 2}};
  all.emplace_back("two resident", policy_of(config));
  config = layers_of_dit();
  config.memory_budget_bytes = 40'000;
  all.emplace_back("budget", policy_of(config));
  config = {};
  config.mode = "auto";
  all.emplace_back("auto", policy_of(config));
  return all;
}

// Of weights: without what is left to activations, and, unless it is asked for,
// without what the granularity of allocations may cost.
int64_t largest(const MemoryNeeds& needs, bool with_rounding) {
  int64_t largest = 0;
  for (const MemoryNeed& need : needs.device) {
    int64_t bytes = 0;
    for (const MemoryItem& item : need.items) {
      if (item.what == "headroom") continue;
      if (with_rounding || item.what != "rounding") bytes += item.bytes;
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

TEST(PreflightPromise, AccountedUseNeverExceedsIt) {
  int placed = 0;
  for (const auto& [name, policy] : policies()) {
    for (int variant = 0; variant < 8; ++variant) {
      SCOPED_TRACE(absl::StrCat(name, ", variant ", variant));
      ToyOptions options;
      options.dits = 1 + variant % 2;
      options.encoders = variant / 2 % 2;
      options.vaes = variant / 4 % 2;
      options.blocks = 2 + variant % 7;
      options.child_blocks = variant % 3;
      options.counts = variant % 3 != 0;
      options.shares = variant % 3 == 1;
      // Orders are the business of other tests.
      SimulatedDeviceOptions device = checked_device();
      device.check = false;
      device.memory_bytes = int64_t{1} << 20;
      SimulatedPlatform platform(device);
      ToyModule module(options);
      // Blocks of a ring are unequal.
      module.add_tensor("dit_0.blocks.1", "more",
                        at::ones({1000 * (1 + variant)}));
      PlacementBackend backend(platform, policy, {});
      const absl::Status status = backend.enable(module);
      // Some pipelines lack what a policy names, or its number of blocks.
      if (!status.ok()) continue;
      ++placed;
      for (int pass = 0; pass < 2; ++pass) {
        for (size_t c = 0; c < module.components().size(); ++c) {
          ASSERT_TRUE(module.run(c, toy_input()).ok());
        }
      }
      const DeviceStats stats = platform.simulated_device().stats();
      const MemoryNeeds& needs = backend.memory_needs();
      EXPECT_LE(stats.device.bytes_peak, largest(needs, true));
      EXPECT_GE(stats.device.bytes_peak, largest(needs, false));
      EXPECT_LE(stats.host.bytes_peak, needs.host.bytes());
      EXPECT_GT(stats.host.bytes_peak, 0);
      EXPECT_EQ(backend.disable(), absl::OkStatus());
    }
  }
  EXPECT_GT(placed, 35);
}

TEST(PreflightPromise, TheHostIsAskedToo) {
  ToyModule module({});
  const std::vector<std::string> state = state_of(module);
  SimulatedPlatform platform(checked_device());
  PlacementBackendOptions options;
  options.host_memory = [] { return HostMemoryLeft{0, "cgroup /pod"}; };
  PlacementBackend backend(platform, layerwise_policy(), options);
  const absl::Status status = backend.enable(module);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StartsWith(status.message(), "host needs ")) << status;
  EXPECT_TRUE(
      absl::StrContains(status.message(), " are available (cgroup /pod, and "))
      << status;
  EXPECT_EQ(state_of(module), state);
  EXPECT_EQ(platform.simulated_device().stats().host.allocations, 0);
}

TEST(PreflightPromise, WhatTheWeightsHoldCounts) {
  // Enough for what is needed beside the memory that comes back.
  SimulatedPlatform platform(checked_device());
  ToyModule module({});
  int64_t held = 0;
  for (const at::Tensor& tensor : module.all_tensors()) {
    held += static_cast<int64_t>(tensor.storage().nbytes());
  }
  PlacementBackend unlimited(platform, layerwise_policy(), {});
  ASSERT_EQ(unlimited.enable(module), absl::OkStatus());
  const int64_t needed = unlimited.memory_needs().host.bytes();
  ASSERT_EQ(unlimited.disable(), absl::OkStatus());
  for (const int64_t lacking : {0, 1}) {
    ToyModule fresh({});
    PlacementBackendOptions options;
    options.host_memory = [&] {
      return HostMemoryLeft{needed - held - lacking, "MemAvailable"};
    };
    PlacementBackend backend(platform, layerwise_policy(), options);
    EXPECT_EQ(backend.enable(fresh).ok(), lacking == 0);
    EXPECT_EQ(backend.disable(), absl::OkStatus());
  }
}

}  // namespace
}  // namespace ferry
