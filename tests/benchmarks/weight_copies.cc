#include "tests/benchmarks/weight_copies.h"

#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "offload/placement_backend.h"
#include "pipelines/generation_observer.h"
#include "pipelines/pipeline.h"
#include "platform/device/device_stats.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/simulated/simulated_platform.h"
#include "tests/benchmarks/measurement.h"

namespace ferry {
namespace {

// Room for some of the demo's blocks: its weights are 7.9 million bytes, its
// transformer is 5.0 million.
constexpr int64_t kBudgetBytes = 5'800'000;

class QuietObserver final : public GenerationObserver {
 public:
  bool is_cancelled() override { return false; }
  void on_progress(const v1::Progress& /*progress*/) override {}
  absl::Status on_preview(v1::Preview /*preview*/) override {
    return absl::OkStatus();
  }
  absl::Status on_output(const v1::OutputInfo& info,
                         std::string /*data*/) override {
    sha256 = info.sha256();
    return absl::OkStatus();
  }

  std::string sha256;
};

std::vector<std::pair<std::string, DiffusionOffloadConfig>> policies() {
  DiffusionOffloadConfig automatic;
  automatic.mode = "auto";
  DiffusionOffloadConfig module;
  module.mode = "module";
  module.components = std::vector<std::string>{"dit", "text_encoder"};
  DiffusionOffloadConfig layer;
  layer.mode = "layer";
  layer.components = std::vector<std::string>{"dit"};
  DiffusionOffloadConfig resident = layer;
  resident.memory_budget_bytes = kBudgetBytes;
  return {{"auto", automatic},
          {"module", module},
          {"layer", layer},
          {"layer with resident blocks", resident}};
}

struct Outcome {
  std::string sha256;
  DeviceStats device;
};

Outcome run(const std::string& package, const DiffusionOffloadConfig& policy) {
  OmniDiffusionConfig config;
  config.diffusion_offload_config = policy;
  SimulatedPlatform platform((SimulatedDeviceOptions()));
  const auto pipeline = Pipeline::load(package, {});
  require(pipeline.ok(), pipeline.status().message());
  PlacementBackend backend(platform, *OffloadConfig::from_od_config(config),
                           {});
  const absl::Status enabled =
      backend.enable((*pipeline)->offloadable_module());
  require(enabled.ok(), enabled.message());
  v1::GenerationSpec spec = (*pipeline)->description().defaults();
  spec.set_prompt("a large red circle on a blue background");
  spec.set_seed(42);
  spec.set_num_images(1);
  spec.set_num_inference_steps(4);
  QuietObserver observer;
  for (int request = 0; request < 2; ++request) {
    const auto report = (*pipeline)->generate(spec, observer);
    require(report.ok(), report.status().message());
  }
  require(backend.disable().ok(), "offloading cannot be disabled");
  return {observer.sha256, platform.simulated_device().stats()};
}

}  // namespace

void measure_weight_copies(const std::string& package) {
  int64_t bytes = 0;
  std::string sha256;
  for (const auto& [name, policy] : policies()) {
    const Outcome outcome = run(package, policy);
    std::cerr << absl::StrCat(name, ": ", outcome.device.host_to_device.bytes,
                              " bytes to the ", "device, ",
                              outcome.device.device_to_host.bytes, " back\n");
    require(sha256.empty() || sha256 == outcome.sha256,
            "the strategies make different pictures");
    sha256 = outcome.sha256;
    bytes += outcome.device.device_to_host.bytes;
  }
  report("weight_d2h_bytes", static_cast<double>(bytes), "bytes",
         "all strategies, load to disable; 0");
}

}  // namespace ferry
