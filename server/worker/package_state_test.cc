// Equal requests give equal pictures, by every policy and in every order,
// whatever the methods of the pipeline write and draw.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
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

// Keeps the pictures; is cancelled at a step.
class Recorder final : public GenerationObserver {
 public:
  explicit Recorder(int cancel_at = -1) : cancel_at_(cancel_at) {}

  bool is_cancelled() override { return step_ == cancel_at_; }
  void on_progress(const v1::Progress& progress) override {
    step_ = progress.step();
  }
  absl::Status on_preview(v1::Preview) override { return absl::OkStatus(); }
  absl::Status on_output(const v1::OutputInfo&, std::string data) override {
    pictures.push_back(std::move(data));
    return absl::OkStatus();
  }

  std::vector<std::string> pictures;

 private:
  const int cancel_at_;
  int step_ = 0;
};

using Pictures = std::vector<std::string>;

struct Policy {
  std::string platform;
  std::string mode;
  int resident_layers = 0;
  int64_t memory_budget_bytes = 0;
};

std::vector<Policy> policies() {
  return {{"cpu", "none"},
          {"simulated", "auto"},
          {"simulated", "none"},
          {"simulated", "module"},
          {"simulated", "layer"},
          {"simulated", "layer", 1},
          {"simulated", "layer", 0, 300'000}};
}

class PackageStateTest : public testing::TestWithParam<std::string> {
 protected:
  PackageStateTest()
      : directory_(std::filesystem::path(testing::TempDir()) / "package") {
    std::filesystem::remove_all(directory_);
  }

  void write(TinyPipelineOptions options) {
    // Four steps fail at the last one.
    options.raise_below_timestep = 300;
    std::filesystem::remove_all(directory_);
    ASSERT_TRUE(write_tiny_pipeline(directory_, options).ok());
  }

  std::unique_ptr<LoadedPipeline> load(const Policy& policy) {
    worker::v1::LoadPipelineRequest request;
    request.set_pipeline("pipelines/tiny");
    request.set_package_dir(directory_);
    request.set_world_size(1);
    request.set_intra_op_threads(1);
    request.mutable_platform()->set_platform(policy.platform);
    request.mutable_platform()->set_simulated_check(true);
    request.mutable_platform()->set_simulated_device_memory(1 << 30);
    auto& offload = *request.mutable_offload();
    offload.set_mode(policy.mode);
    if (policy.mode == "layer" || policy.mode == "module") {
      offload.add_components("dit");
      offload.add_components("text_encoder");
    }
    if (policy.resident_layers > 0) {
      auto& layers = *offload.add_layer_options();
      layers.set_component("dit");
      layers.set_resident_layers(policy.resident_layers);
    }
    if (policy.memory_budget_bytes > 0) {
      offload.set_memory_budget_bytes(policy.memory_budget_bytes);
    }
    auto loaded = load_pipeline(request);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? *std::move(loaded) : nullptr;
  }

  static v1::GenerationSpec spec(LoadedPipeline& pipeline, int64_t seed) {
    v1::GenerationSpec spec = pipeline.description().defaults();
    spec.set_prompt("a red circle");
    spec.set_seed(seed);
    spec.set_num_images(2);
    return spec;
  }

  static Pictures generate(LoadedPipeline& pipeline, int64_t seed) {
    v1::GenerationSpec wanted = spec(pipeline, seed);
    wanted.clear_num_inference_steps();
    for (const double sigma : {1.0, 0.8, 0.5}) wanted.add_sigmas(sigma);
    Recorder recorder;
    const auto report = pipeline.generate(wanted, recorder);
    EXPECT_TRUE(report.ok()) << report.status();
    return recorder.pictures;
  }

  static void cancel(LoadedPipeline& pipeline) {
    Recorder recorder(/*cancel_at=*/2);
    EXPECT_EQ(pipeline.generate(spec(pipeline, 3), recorder).status().code(),
              absl::StatusCode::kCancelled);
  }

  static void fail(LoadedPipeline& pipeline) {
    Recorder recorder;
    EXPECT_EQ(pipeline.generate(spec(pipeline, 4), recorder).status().code(),
              absl::StatusCode::kInternal);
  }

  const std::filesystem::path directory_;
};

TEST_P(PackageStateTest, EqualRequestsGiveEqualPictures) {
  TinyPipelineOptions options;
  write(options);
  const Pictures without = generate(*load(policies()[0]), 1);
  options.state = GetParam();
  write(options);
  Pictures first;
  Pictures second;
  for (const Policy& policy : policies()) {
    SCOPED_TRACE(absl::StrCat(policy.platform, " ", policy.mode, " ",
                              policy.resident_layers, " ",
                              policy.memory_budget_bytes));
    const auto pipeline = load(policy);
    ASSERT_NE(pipeline, nullptr);
    if (first.empty()) {
      first = generate(*pipeline, 1);
      second = generate(*pipeline, 2);
      // What is written, or drawn, counts.
      EXPECT_NE(first, without);
      EXPECT_NE(first, second);
    }
    for (const auto& between : std::vector<std::function<void()>>{
             [&] { cancel(*pipeline); }, [&] { fail(*pipeline); }, [] {}}) {
      EXPECT_TRUE(generate(*pipeline, 2) == second);
      between();
      EXPECT_TRUE(generate(*pipeline, 1) == first);
    }
    if (HasFailure()) break;
  }
}

TEST_P(PackageStateTest, IsPartOfTheReport) {
  TinyPipelineOptions options;
  options.state = GetParam();
  write(options);
  const v1::OffloadReport report = load(policies()[4])->description().offload();
  const bool draws = GetParam() == "dropout" || GetParam() == "randn_like" ||
                     GetParam() == "multinomial";
  EXPECT_EQ(report.written_count() > 0, !draws);
  EXPECT_EQ(report.written_count(), report.written_state_size());
  for (const v1::WrittenState& entry : report.written_state()) {
    // With the method.
    EXPECT_TRUE(absl::StrContains(entry.reason(), " in ") &&
                absl::StrContains(entry.reason(), "remember"))
        << entry.ShortDebugString();
    EXPECT_TRUE(absl::StartsWith(entry.path(), "transformer.") ||
                absl::StartsWith(entry.path(), "text_encoder.") ||
                absl::StartsWith(entry.path(), "vae."))
        << entry.ShortDebugString();
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, PackageStateTest,
                         testing::ValuesIn(tiny_state_kinds()),
                         [](const testing::TestParamInfo<std::string>& param) {
                           return param.param;
                         });

}  // namespace
}  // namespace ferry
