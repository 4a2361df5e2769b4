#include "offload/get_offload_backend.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "platform/device/device.h"
#include "platform/device/get_platform.h"
#include "platform/device/memory_info.h"
#include "platform/device/platform.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/simulated/simulated_platform.h"

namespace ferry {
namespace {

OffloadConfig config_of(const OmniDiffusionConfig& config) {
  return *OffloadConfig::from_od_config(config);
}

OffloadConfig automatic() {
  OmniDiffusionConfig config;
  config.diffusion_offload_config.emplace().mode = "auto";
  return config_of(config);
}

OffloadConfig layerwise() {
  OmniDiffusionConfig config;
  config.enable_layerwise_offload = true;
  return config_of(config);
}

// A platform that could offload.
class AblePlatform : public Platform {
 public:
  std::string name() const override { return "able"; }
  std::string torch_device() const override { return "cpu"; }
  absl::StatusOr<MemoryInfo> memory_info() const override {
    return MemoryInfo{};
  }
  bool supports_cpu_offload() const override { return true; }
  std::string offload_unsupported_reason() const override { return ""; }
  Device* device() override { return nullptr; }
  absl::Status synchronize() override { return absl::OkStatus(); }
  void empty_cache() override {}
};

TEST(GetOffloadBackend, CpuGetsNoneWhateverWasAsked) {
  const std::unique_ptr<Platform> cpu = *get_platform({"cpu"});
  for (const OffloadConfig& config : {automatic(), layerwise()}) {
    const auto choice = get_offload_backend(config, *cpu);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->backend, nullptr);
    EXPECT_EQ(choice->reason.find("offload unsupported on platform cpu: "), 0u)
        << choice->reason;
  }
}

TEST(GetOffloadBackend, NoneIsNotAskedFor) {
  AblePlatform able;
  const auto choice = get_offload_backend(OffloadConfig(), able);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->backend, nullptr);
  EXPECT_EQ(choice->reason, "not asked for");
}

// Its kernels cannot run on weights where they were loaded.
TEST(GetOffloadBackend, ADeviceThatIsNotTheHostGetsTheWeightsInAnyMode) {
  class RemotePlatform : public AblePlatform {
   public:
    std::string torch_device() const override { return "cuda:0"; }
    Device* device() override { return simulated_.device(); }

   private:
    SimulatedPlatform simulated_{SimulatedDeviceOptions{}};
  };
  RemotePlatform remote;
  const auto choice = get_offload_backend(OffloadConfig(), remote);
  ASSERT_TRUE(choice.ok()) << choice.status();
  ASSERT_NE(choice->backend, nullptr);
  EXPECT_EQ(choice->backend->strategy(), OffloadStrategy::kNone);
  EXPECT_EQ(choice->reason, "not asked for: all weights are on cuda:0");
}

TEST(GetOffloadBackend, MakesABackendThatHasTouchedNothing) {
  SimulatedPlatform simulated(SimulatedDeviceOptions{});
  for (const OffloadConfig& config : {automatic(), layerwise()}) {
    const auto choice = get_offload_backend(config, simulated);
    ASSERT_TRUE(choice.ok()) << choice.status();
    ASSERT_NE(choice->backend, nullptr);
    EXPECT_FALSE(choice->backend->is_enabled());
    EXPECT_EQ(choice->backend->strategy(), config.strategy());
    EXPECT_EQ(choice->reason, "");
    EXPECT_EQ(choice->backend->reason(), "");
  }
  EXPECT_EQ(simulated.simulated_device().stats().host.allocations, 0);
}

TEST(GetOffloadBackend, RefusesAllGatherOverRanks) {
  AblePlatform able;
  OmniDiffusionConfig config;
  config.enable_distributed_layerwise_offload = true;
  config.parallel_config.data_parallel_size = 2;
  const auto choice = get_offload_backend(config_of(config), able);
  EXPECT_EQ(choice.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(choice.status().message(), "allgather"))
      << choice.status();
}

// Whatever is asked of offloading.
TEST(GetOffloadBackend, RefusesParallelismThatCannotRun) {
  AblePlatform able;
  const std::unique_ptr<Platform> cpu = *get_platform({"cpu"});
  for (const bool layerwise : {false, true}) {
    OmniDiffusionConfig config;
    config.enable_layerwise_offload = layerwise;
    config.parallel_config.tensor_parallel_size = 2;
    for (Platform* platform : {static_cast<Platform*>(&able), cpu.get()}) {
      const auto choice = get_offload_backend(config_of(config), *platform);
      EXPECT_EQ(choice.status().code(), absl::StatusCode::kUnimplemented);
      EXPECT_TRUE(
          absl::StrContains(choice.status().message(), "tensor_parallel_size"))
          << choice.status();
    }
  }
}

TEST(GetOffloadBackend, RanksWithTheirOwnWeightsNeedNothing) {
  SimulatedPlatform simulated(SimulatedDeviceOptions{});
  OmniDiffusionConfig config;
  config.enable_layerwise_offload = true;
  config.parallel_config.data_parallel_size = 4;
  const auto choice = get_offload_backend(config_of(config), simulated);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_NE(choice->backend, nullptr);
}

}  // namespace
}  // namespace ferry
