#include "server/worker/pipeline_loader.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipelines/testing/tiny_pipeline.h"

namespace ferry {
namespace {

using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CountingObserver final : public GenerationObserver {
 public:
  bool is_cancelled() override { return cancel; }
  void on_progress(const v1::Progress&) override {}
  absl::Status on_preview(v1::Preview) override { return absl::OkStatus(); }
  absl::Status on_output(const v1::OutputInfo& info,
                         std::string data) override {
    EXPECT_EQ(info.size_bytes(), static_cast<int64_t>(data.size()));
    outputs.push_back(std::move(data));
    return absl::OkStatus();
  }

  bool cancel = false;
  std::vector<std::string> outputs;
};

class PipelineLoaderTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::filesystem::path directory =
        std::filesystem::path(::testing::TempDir()) / "tiny";
    ASSERT_TRUE(write_tiny_pipeline(directory, {}).ok());
    request_.set_pipeline("pipelines/tiny");
    request_.set_package_dir(directory);
    request_.set_world_size(1);
    request_.set_intra_op_threads(1);
  }

  // The pictures, which must come.
  static std::vector<std::string> generate(LoadedPipeline& pipeline) {
    v1::GenerationSpec spec = pipeline.description().defaults();
    spec.set_prompt("a red circle");
    spec.set_seed(1);
    spec.set_num_images(1);
    CountingObserver observer;
    const auto report = pipeline.generate(spec, observer);
    EXPECT_TRUE(report.ok()) << report.status();
    return observer.outputs;
  }

  static v1::Timings generate_once(LoadedPipeline& pipeline) {
    CountingObserver observer;
    v1::GenerationSpec spec = pipeline.description().defaults();
    spec.set_prompt("a red circle");
    spec.set_num_images(1);
    const auto report = pipeline.generate(spec, observer);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? report->timings : v1::Timings();
  }

  static worker::v1::LoadPipelineRequest request_;
};

worker::v1::LoadPipelineRequest PipelineLoaderTest::request_;

TEST_F(PipelineLoaderTest, ReportsThatTheCpuDoesNotOffload) {
  const auto loaded = load_pipeline(request_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->device(), "cpu");
  const v1::Pipeline description = (*loaded)->description();
  EXPECT_GT(description.limits().max_edge(), 0);
  const v1::OffloadReport& report = description.offload();
  EXPECT_EQ(report.strategy(), "none");
  EXPECT_THAT(report.reason(), HasSubstr("offload unsupported"));
  EXPECT_EQ(report.device(), "cpu");
  int64_t bytes = 0;
  bool has_dit = false;
  for (const v1::ComponentReport& component : report.components()) {
    EXPECT_EQ(component.placement(), "resident") << component.path();
    bytes += component.bytes();
    if (component.role() == "dit") {
      has_dit = true;
      EXPECT_EQ(component.blocks(), 3);
      EXPECT_EQ(component.resident_blocks(), 3);
    }
  }
  EXPECT_TRUE(has_dit);
  EXPECT_FALSE(generate_once(**loaded).has_exposed_stall());
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(report.resident_bytes(), bytes);
  EXPECT_EQ(report.host_bytes(), bytes);
  EXPECT_EQ(report.notes_size(), 0);
}

TEST_F(PipelineLoaderTest, NotesThatTheCpuStreamsNothingAlthoughItWasAskedFor) {
  worker::v1::LoadPipelineRequest request = request_;
  request.mutable_offload()->set_mode("layer");
  request.mutable_offload()->add_components("dit");
  const auto loaded = load_pipeline(request);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const v1::OffloadReport report = (*loaded)->description().offload();
  ASSERT_EQ(report.notes_size(), 1);
  EXPECT_THAT(report.notes(0),
              StartsWith("nothing is streamed, although the policy asks for "
                         "it: offload unsupported on platform cpu"));
}

TEST_F(PipelineLoaderTest, RunsOnThePlatformThatIsAskedFor) {
  worker::v1::LoadPipelineRequest request = request_;
  request.mutable_platform()->set_platform("simulated");
  request.mutable_platform()->set_simulated_device_memory(1 << 30);
  request.mutable_platform()->set_simulated_copy_engines(1);
  request.mutable_offload()->set_mode("none");
  const auto loaded = load_pipeline(request);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->description().offload().reason(), "not asked for");
}

TEST_F(PipelineLoaderTest, OffloadedItGeneratesTheSame) {
  const std::vector<std::string> expected = generate(**load_pipeline(request_));
  ASSERT_EQ(expected.size(), 1u);
  const std::vector<std::pair<std::string, std::string>> strategies = {
      {"auto", "none"}, {"module", "model_level"}, {"layer", "layer_wise"}};
  for (const auto& [mode, strategy] : strategies) {
    worker::v1::LoadPipelineRequest request = request_;
    request.mutable_platform()->set_platform("simulated");
    request.mutable_platform()->set_simulated_check(true);
    request.mutable_offload()->set_mode(mode);
    if (mode != "auto") {
      request.mutable_offload()->add_components("dit");
      request.mutable_offload()->add_components("text_encoder");
    }
    const auto loaded = load_pipeline(request);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const v1::OffloadReport report = (*loaded)->description().offload();
    EXPECT_EQ(report.strategy(), strategy);
    EXPECT_EQ(report.streamed_bytes() > 0, mode != "auto") << mode;
    EXPECT_GT(report.host_bytes(), 0);
    for (int request_number = 0; request_number < 2; ++request_number) {
      EXPECT_EQ(generate(**loaded), expected) << mode;
    }
  }
}

TEST_F(PipelineLoaderTest, ReportsWhatStreamingTook) {
  worker::v1::LoadPipelineRequest request = request_;
  request.mutable_platform()->set_platform("simulated");
  request.mutable_platform()->set_simulated_h2d_gbps(0.01);
  request.mutable_offload()->set_mode("layer");
  request.mutable_offload()->add_components("dit");
  const auto loaded = load_pipeline(request);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const v1::OffloadReport before = (*loaded)->description().offload();
  EXPECT_EQ(before.reason(), "asked for");
  EXPECT_EQ(before.policy().find("strategy layer_wise"), 0u);
  EXPECT_GT(before.device_bytes(), before.resident_bytes());
  const v1::Timings timings = generate_once(**loaded);
  EXPECT_GT(timings.h2d_bytes(), before.streamed_bytes());
  EXPECT_NEAR(timings.h2d_gbps(), 0.01, 0.002);
  EXPECT_EQ(timings.demand_fetches(), 0);
  EXPECT_GT(timings.first_block_stall().nanos(), 0);
  EXPECT_GT(timings.exposed_stall().nanos(),
            timings.first_block_stall().nanos());
  const v1::OffloadReport after = (*loaded)->description().offload();
  EXPECT_EQ(after.total_h2d_bytes() - before.total_h2d_bytes(),
            timings.h2d_bytes());
  EXPECT_GE(after.total_exposed_stall().nanos(),
            timings.exposed_stall().nanos());
  EXPECT_GT(after.h2d_gbps(), 0);
}

TEST_F(PipelineLoaderTest, ReportsWhatIsNotStreamedAlthoughItWasAskedFor) {
  const std::filesystem::path directory =
      std::filesystem::path(::testing::TempDir()) / "tied";
  TinyPipelineOptions options;
  options.tied = true;
  ASSERT_TRUE(write_tiny_pipeline(directory, options).ok());
  worker::v1::LoadPipelineRequest request = request_;
  request.set_package_dir(directory);
  request.mutable_platform()->set_platform("simulated");
  request.mutable_offload()->set_mode("layer");
  request.mutable_offload()->add_components("dit");
  const auto loaded = load_pipeline(request);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const v1::OffloadReport report = (*loaded)->description().offload();
  ASSERT_EQ(report.held_count(), 1);
  ASSERT_EQ(report.held_weights_size(), 1);
  const v1::HeldWeights& held = report.held_weights(0);
  EXPECT_THAT(held.path(), HasSubstr("transformer.blocks."));
  EXPECT_GT(held.bytes(), 0);
  EXPECT_EQ(held.bytes(), report.held_bytes());
  EXPECT_THAT(held.reason(), HasSubstr("is used by "));
  // The others are streamed.
  EXPECT_GT(report.streamed_bytes(), 0);
  for (const std::string& note : report.notes()) {
    EXPECT_EQ(note.find("nothing is streamed"), std::string::npos) << note;
  }
}

TEST_F(PipelineLoaderTest, WhatDoesNotFitIsRefusedByPhase) {
  worker::v1::LoadPipelineRequest request = request_;
  request.mutable_platform()->set_platform("simulated");
  request.mutable_platform()->set_simulated_device_memory(65536);
  for (const char* mode : {"auto", "layer", "module"}) {
    request.mutable_offload()->set_mode(mode);
    request.mutable_offload()->clear_components();
    if (request.offload().mode() != "auto") {
      request.mutable_offload()->add_components("dit");
    }
    const absl::Status status = load_pipeline(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    for (const char* phase : {"encode_prompt", "denoise", "decode"}) {
      EXPECT_THAT(std::string(status.message()),
                  ContainsRegex(absl::StrCat(
                      phase,
                      " needs [0-9]+ bytes of device memory .*, and "
                      "65536 are free")));
    }
  }
}

TEST_F(PipelineLoaderTest, ThePackagesHeadroomIsTheDefault) {
  const std::filesystem::path directory =
      std::filesystem::path(::testing::TempDir()) / "headroom";
  ASSERT_TRUE(write_tiny_pipeline(directory, {}).ok());
  std::ofstream(directory / "ferry.txtpb", std::ios::app)
      << "headroom_bytes: 1000000\n";
  worker::v1::LoadPipelineRequest request = request_;
  request.set_package_dir(directory);
  request.mutable_platform()->set_platform("simulated");
  request.mutable_platform()->set_simulated_device_memory(1'000'000);
  EXPECT_THAT(std::string(load_pipeline(request).status().message()),
              HasSubstr("headroom 1000000"));
  request.mutable_offload()->set_mode("auto");
  request.mutable_offload()->set_headroom_bytes(0);
  EXPECT_TRUE(load_pipeline(request).ok());
}

TEST_F(PipelineLoaderTest, NamesWhatIsWrongWithThePlatform) {
  worker::v1::LoadPipelineRequest request = request_;
  request.mutable_platform()->set_platform("cuda");
  // No machine has so many.
  request.set_device_index(99);
  EXPECT_THAT(std::string(load_pipeline(request).status().message()),
              HasSubstr("platform: cuda: "));
  request.mutable_platform()->set_platform("simulated");
  request.mutable_platform()->set_simulated_copy_engines(0);
  EXPECT_THAT(std::string(load_pipeline(request).status().message()),
              HasSubstr("simulated_copy_engines: 0 is not from 1 to 16"));
}

TEST_F(PipelineLoaderTest, GeneratesAndGoesOnAfterACancel) {
  const auto loaded = load_pipeline(request_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  v1::GenerationSpec spec = (*loaded)->description().defaults();
  spec.set_prompt("a red circle");
  spec.set_seed(1);
  spec.set_num_images(1);
  CountingObserver cancelled;
  cancelled.cancel = true;
  EXPECT_EQ((*loaded)->generate(spec, cancelled).status().code(),
            absl::StatusCode::kCancelled);
  CountingObserver observer;
  const auto report = (*loaded)->generate(spec, observer);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(observer.outputs.size(), 1u);
  EXPECT_EQ(observer.outputs[0].substr(1, 3), "PNG");
}

TEST_F(PipelineLoaderTest, NamesWhatIsWrong) {
  worker::v1::LoadPipelineRequest request = request_;
  request.set_package_dir("/no/such/package");
  EXPECT_THAT(std::string(load_pipeline(request).status().message()),
              HasSubstr("/no/such/package"));
  request = request_;
  request.mutable_offload()->set_mode("always");
  EXPECT_THAT(std::string(load_pipeline(request).status().message()),
              HasSubstr("offload.mode"));
  request = request_;
  request.set_world_size(3);
  request.mutable_parallel()->set_data_parallel_size(2);
  EXPECT_THAT(std::string(load_pipeline(request).status().message()),
              HasSubstr("ranks: 3"));
}

// Before anything of the package's weights is read: this one has none.
TEST_F(PipelineLoaderTest, RefusesWhatRanksCannotShareBeforeItLoads) {
  const std::filesystem::path directory =
      std::filesystem::path(::testing::TempDir()) / "no_module";
  ASSERT_TRUE(write_tiny_pipeline(directory, {}).ok());
  std::filesystem::remove(directory / "pipeline.pt");
  worker::v1::LoadPipelineRequest request = request_;
  request.set_package_dir(directory);
  request.set_world_size(2);
  request.mutable_parallel()->set_tensor_parallel_size(2);
  const absl::Status status = load_pipeline(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("parallel_config.tensor_parallel_size: 2 is not "
                        "supported"));
}

TEST_F(PipelineLoaderTest, EveryRankOfAGroupGivesTheSameBytes) {
  std::vector<std::string> outputs;
  for (int rank = 0; rank < 3; ++rank) {
    worker::v1::LoadPipelineRequest request = request_;
    request.set_rank(rank);
    request.set_world_size(3);
    const auto loaded = load_pipeline(request);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ((*loaded)->description().offload().group_size(), 3);
    for (std::string& output : generate(**loaded)) {
      outputs.push_back(std::move(output));
    }
  }
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_THAT(outputs, Each(outputs[0]));
}

}  // namespace
}  // namespace ferry
