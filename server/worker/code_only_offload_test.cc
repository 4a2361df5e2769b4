// A package whose weights are in files, offloaded by every strategy, generates
// what the package with the weights inside does, and keeps no copy of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pipelines/generation_observer.h"
#include "pipelines/testing/tiny_pipeline.h"
#include "pipelines/testing/tiny_pipeline_options.h"
#include "server/worker/loaded_pipeline.h"
#include "server/worker/pipeline_loader.h"

namespace ferry {
namespace {

class PictureObserver final : public GenerationObserver {
 public:
  bool is_cancelled() override { return false; }
  void on_progress(const v1::Progress&) override {}
  absl::Status on_preview(v1::Preview) override { return absl::OkStatus(); }
  absl::Status on_output(const v1::OutputInfo&, std::string data) override {
    picture = std::move(data);
    return absl::OkStatus();
  }

  std::string picture;
};

// Lines of /proc/self/maps that are weight files of a package.
int mapped_files(const std::filesystem::path& directory) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  int count = 0;
  while (std::getline(maps, line)) {
    if (absl::StrContains(line, directory.string()) &&
        absl::EndsWith(line, ".safetensors")) {
      ++count;
    }
  }
  return count;
}

class CodeOnlyOffloadTest : public ::testing::Test {
 protected:
  static worker::v1::LoadPipelineRequest request_for(
      const std::filesystem::path& directory,
      const TinyPipelineOptions& options) {
    std::filesystem::remove_all(directory);
    EXPECT_TRUE(write_tiny_pipeline(directory, options).ok());
    worker::v1::LoadPipelineRequest request;
    request.set_pipeline("pipelines/tiny");
    request.set_package_dir(directory);
    request.set_world_size(1);
    request.set_intra_op_threads(1);
    return request;
  }

  static std::string generate(LoadedPipeline& pipeline, int64_t seed) {
    v1::GenerationSpec spec = pipeline.description().defaults();
    spec.set_prompt("a red circle");
    spec.set_seed(seed);
    PictureObserver observer;
    const auto report = pipeline.generate(spec, observer);
    EXPECT_TRUE(report.ok()) << report.status();
    return observer.picture;
  }

  static std::vector<std::string> generate(LoadedPipeline& pipeline) {
    return {generate(pipeline, 1), generate(pipeline, 2)};
  }

  static std::filesystem::path directory(const std::string& name) {
    return std::filesystem::path(::testing::TempDir()) / name;
  }
};

struct Strategy {
  std::string name;
  std::string mode;
  // Blocks that stay.
  int resident = 0;
  int64_t device_memory = 1 << 30;
};

std::vector<Strategy> strategies() {
  return {{"none", "auto"},
          {"model_level", "module"},
          {"layer_wise", "layer"},
          {"distributed_layer_wise", "layer", 1},
          {"distributed_layer_wise", "auto", 0, 430'000}};
}

void apply(const Strategy& strategy, worker::v1::LoadPipelineRequest* request) {
  auto& platform = *request->mutable_platform();
  platform.set_platform("simulated");
  platform.set_simulated_check(true);
  platform.set_simulated_device_memory(strategy.device_memory);
  auto& offload = *request->mutable_offload();
  offload.set_mode(strategy.mode);
  if (strategy.mode == "auto") return;
  offload.add_components("dit");
  offload.add_components("text_encoder");
  if (strategy.resident == 0) return;
  auto& layers = *offload.add_layer_options();
  layers.set_component("dit");
  layers.set_resident_layers(strategy.resident);
}

TEST_F(CodeOnlyOffloadTest, EveryStrategyGeneratesTheSame) {
  std::vector<std::pair<std::string, TinyPipelineOptions>> pipelines(6);
  pipelines[0].first = "scripted";
  pipelines[1].first = "traced, sharded";
  pipelines[1].second.traced = true;
  pipelines[1].second.sharded = true;
  pipelines[2].first = "tied, unaligned";
  pipelines[2].second.tied = true;
  pipelines[2].second.odd_bytes = 1;
  pipelines[3].first = "half";
  pipelines[3].second.half_weights = true;
  pipelines[4].first = "written";
  pipelines[4].second.writes_parameter = true;
  pipelines[5].first = "as files of others are";
  pipelines[5].second.odd_bytes = 8;
  for (auto& [name, options] : pipelines) {
    SCOPED_TRACE(name);
    options.blocks = 4;
    // So large that blocks must be streamed.
    options.ballast_bytes = 40'000;
    if (options.traced) options.ballast_bytes = 0;
    const auto inside = load_pipeline(request_for(directory("in"), options));
    ASSERT_TRUE(inside.ok()) << inside.status();
    const std::vector<std::string> expected = generate(**inside);
    options.code_only = true;
    const auto request = request_for(directory("code_only"), options);
    for (const Strategy& strategy : strategies()) {
      if (options.traced && strategy.device_memory < 1 << 30) continue;
      SCOPED_TRACE(absl::StrCat(strategy.mode, ": ", strategy.name));
      worker::v1::LoadPipelineRequest offloaded = request;
      apply(strategy, &offloaded);
      const auto loaded = load_pipeline(offloaded);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_EQ((*loaded)->description().offload().strategy(), strategy.name);
      EXPECT_EQ(generate(**loaded), expected);
      // The images are the only copy.
      EXPECT_EQ(mapped_files(directory("code_only")), 0);
    }
  }
}

TEST_F(CodeOnlyOffloadTest, WithoutOffloadingTheFilesAreTheWeights) {
  TinyPipelineOptions options;
  options.code_only = true;
  auto request = request_for(directory("mapped"), options);
  const auto loaded = load_pipeline(request);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(mapped_files(directory("mapped")), 3);
  // Where kernels would add in another order, they are copies.
  options.odd_bytes = 8;
  request = request_for(directory("copied"), options);
  const auto copied = load_pipeline(request);
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_EQ(mapped_files(directory("copied")), 0);
  EXPECT_EQ(generate(**copied), generate(**loaded));
}

// Others put the whole checkpoint on the device first, or round the host's
// copies up to powers of two.
TEST_F(CodeOnlyOffloadTest, ThirtyPercentOfTheWeightsAreDeviceEnough) {
  TinyPipelineOptions options;
  options.code_only = true;
  options.blocks = 12;
  options.ballast_bytes = 300'000;
  worker::v1::LoadPipelineRequest request =
      request_for(directory("large"), options);
  const auto resident = load_pipeline(request);
  ASSERT_TRUE(resident.ok()) << resident.status();
  const int64_t weights = (*resident)->description().offload().host_bytes();
  ASSERT_GT(weights, 12 * 300'000);
  apply({"layer_wise", "layer", 0, weights * 3 / 10}, &request);
  const auto loaded = load_pipeline(request);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(generate(**loaded), generate(**resident));
  // Its buffer outside of components is 256 KiB.
  EXPECT_LE((*loaded)->description().offload().host_bytes(),
            (weights + (256 << 10)) * 102 / 100);
}

}  // namespace
}  // namespace ferry
