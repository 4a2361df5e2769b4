// A pipeline whose device loses copies without a word.

#include "server/worker/torch_pipeline.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "offload/get_offload_backend.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "pipelines/generation_observer.h"
#include "pipelines/pipeline.h"
#include "pipelines/testing/tiny_pipeline.h"
#include "platform/base/error_info.h"
#include "platform/device/device.h"
#include "platform/device/memory_info.h"
#include "platform/device/platform.h"
#include "platform/device/simulated/fault_plan.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/simulated/simulated_platform.h"
#include "server/worker/loaded_pipeline.h"

namespace ferry {
namespace {

// Keeps what a client would see.
class Recorder final : public GenerationObserver {
 public:
  bool is_cancelled() override { return false; }
  void on_progress(const v1::Progress&) override {}
  absl::Status on_preview(v1::Preview preview) override {
    previews.push_back(preview.data());
    return absl::OkStatus();
  }
  absl::Status on_output(const v1::OutputInfo&, std::string data) override {
    outputs.push_back(std::move(data));
    return absl::OkStatus();
  }

  std::vector<std::string> previews;
  std::vector<std::string> outputs;
};

struct Case {
  const char* mode;
  // Without the checker nothing tells stale bytes from others; with it they
  // are NaN.
  bool checks;
};

// A tiny pipeline on a device of its own.
class TinyOnDevice {
 public:
  TinyOnDevice(const std::filesystem::path& directory, const Case& how) {
    SimulatedDeviceOptions options;
    options.memory_bytes = int64_t{1} << 30;
    options.latency = absl::ZeroDuration();
    options.check = how.checks;
    auto platform = std::make_unique<SimulatedPlatform>(options);
    device_ = &platform->simulated_device();
    TorchPipeline::Parts parts;
    parts.platform = std::move(platform);
    OmniDiffusionConfig config;
    DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
    compact.mode = how.mode;
    compact.components = std::vector<std::string>{"dit", "text_encoder"};
    parts.config = *OffloadConfig::from_od_config(config);
    parts.choice = *get_offload_backend(parts.config, *parts.platform);
    PipelineOptions load;
    load.warm_up = false;
    parts.pipeline = *Pipeline::load(directory, load);
    pipeline_ = std::make_unique<TorchPipeline>(std::move(parts), nullptr);
  }

  absl::Status start() {
    const absl::StatusOr<bool> started = pipeline_->start(/*warm_up=*/true);
    EXPECT_TRUE(!started.ok() || *started);
    return started.status();
  }

  absl::Status generate(Recorder& recorder) {
    v1::GenerationSpec spec = pipeline_->description().defaults();
    spec.set_prompt("a red circle");
    spec.set_seed(7);
    spec.set_num_images(2);
    spec.set_num_inference_steps(3);
    spec.mutable_preview()->set_interval_steps(1);
    return pipeline_->generate(spec, recorder).status();
  }

  int64_t copies() const {
    return device_->faults().calls(FaultPoint::kCopySilent);
  }
  // The `nth` one from now on.
  void lose_copy(int64_t nth) {
    device_->faults().fail(FaultPoint::kCopySilent, nth);
  }

 private:
  SimulatedDevice* device_ = nullptr;
  std::unique_ptr<TorchPipeline> pipeline_;
};

class LostCopyTest : public testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::filesystem::path(testing::TempDir()) / "lost_copy";
    std::filesystem::remove_all(directory_);
    ASSERT_EQ(write_tiny_pipeline(directory_, {}), absl::OkStatus());
  }

  static TinyOnDevice make() { return TinyOnDevice(directory_, GetParam()); }

  static void expect_device_failed(const absl::Status& status) {
    const std::optional<ErrorInfo> info = get_error_info(status);
    ASSERT_TRUE(info.has_value()) << status;
    EXPECT_EQ(info->reason, kDeviceFailed) << status;
  }

  static std::filesystem::path directory_;
};

std::filesystem::path LostCopyTest::directory_;

TEST_P(LostCopyTest, ShowsNoPictureThatUsedALostCopy) {
  TinyOnDevice whole = make();
  ASSERT_EQ(whole.start(), absl::OkStatus());
  Recorder expected;
  const int64_t before = whole.copies();
  ASSERT_EQ(whole.generate(expected), absl::OkStatus());
  ASSERT_EQ(expected.outputs.size(), 2u);
  const int64_t count = whole.copies() - before;
  ASSERT_GT(count, 1);
  int64_t failures = 0;
  for (int64_t nth = 1; nth <= count; ++nth) {
    SCOPED_TRACE(absl::StrCat("copy ", nth, " of ", count));
    TinyOnDevice other = make();
    ASSERT_EQ(other.start(), absl::OkStatus());
    other.lose_copy(nth);
    Recorder recorder;
    absl::Status status = other.generate(recorder);
    EXPECT_TRUE(recorder.previews.size() <= expected.previews.size() &&
                std::equal(recorder.previews.begin(), recorder.previews.end(),
                           expected.previews.begin()));
    if (status.ok()) {
      // It was for the next one.
      EXPECT_EQ(recorder.outputs, expected.outputs);
      status = other.generate(recorder);
    } else {
      ++failures;
      EXPECT_TRUE(recorder.outputs.empty());
    }
    expect_device_failed(status);
  }
  EXPECT_GT(failures, count / 2);
}

// Neither what stays nor what the first request of all runs with.
TEST_P(LostCopyTest, IsNotReadyAfterALostCopy) {
  TinyOnDevice whole = make();
  ASSERT_EQ(whole.start(), absl::OkStatus());
  const int64_t count = whole.copies();
  int64_t failures = 0;
  for (int64_t nth = 1; nth <= count; ++nth) {
    SCOPED_TRACE(absl::StrCat("copy ", nth, " of ", count));
    TinyOnDevice other = make();
    other.lose_copy(nth);
    absl::Status status = other.start();
    if (status.ok()) {
      Recorder recorder;
      status = other.generate(recorder);
      EXPECT_TRUE(recorder.outputs.empty());
    } else {
      ++failures;
    }
    expect_device_failed(status);
  }
  EXPECT_GT(failures, count / 2);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, LostCopyTest,
    testing::Values(Case{"layer", false}, Case{"layer", true},
                    Case{"module", false}),
    [](const auto& info) {
      return absl::StrCat(info.param.mode, info.param.checks ? "Checked" : "");
    });

// Of whose memory something is taken whenever somebody looks.
class ShrinkingPlatform final : public Platform {
 public:
  static constexpr int64_t kTaken = 1000;

  explicit ShrinkingPlatform(const SimulatedDeviceOptions& options)
      : platform_(options) {}

  std::string name() const override { return "shrinking"; }
  std::string torch_device() const override { return "cpu"; }
  absl::StatusOr<MemoryInfo> memory_info() const override {
    absl::StatusOr<MemoryInfo> memory = platform_.memory_info();
    if (memory.ok()) memory->free_bytes -= kTaken * ++looks_;
    return memory;
  }
  bool counts_activations() const override { return true; }
  bool supports_cpu_offload() const override { return true; }
  std::string offload_unsupported_reason() const override { return ""; }
  Device* device() override { return platform_.device(); }
  absl::Status synchronize() override { return platform_.synchronize(); }
  void empty_cache() override {}

 private:
  SimulatedPlatform platform_;
  mutable int64_t looks_ = 0;
};

class LargestRequestTest : public testing::Test {
 protected:
  static v1::OffloadReport report_with(int64_t headroom_bytes) {
    const auto directory =
        std::filesystem::path(testing::TempDir()) / "largest";
    std::filesystem::remove_all(directory);
    EXPECT_EQ(write_tiny_pipeline(directory, {}), absl::OkStatus());
    TorchPipeline::Parts parts;
    parts.platform =
        std::make_unique<ShrinkingPlatform>(SimulatedDeviceOptions());
    OmniDiffusionConfig config;
    DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
    compact.mode = "auto";
    compact.headroom_bytes = headroom_bytes;
    parts.config = *OffloadConfig::from_od_config(config);
    parts.choice = *get_offload_backend(parts.config, *parts.platform);
    PipelineOptions load;
    load.warm_up = false;
    parts.pipeline = *Pipeline::load(directory, load);
    TorchPipeline pipeline(std::move(parts), nullptr);
    EXPECT_EQ(pipeline.start(/*warm_up=*/true).status(), absl::OkStatus());
    return pipeline.description().offload();
  }
};

TEST_F(LargestRequestTest, IsMeasuredAndComparedWithWhatWasLeftToIt) {
  const v1::OffloadReport enough = report_with(ShrinkingPlatform::kTaken);
  EXPECT_EQ(enough.largest_request_bytes(), ShrinkingPlatform::kTaken);
  EXPECT_EQ(enough.headroom_bytes(), ShrinkingPlatform::kTaken);
  EXPECT_EQ(enough.notes_size(), 0);
  const v1::OffloadReport less = report_with(ShrinkingPlatform::kTaken - 1);
  ASSERT_EQ(less.notes_size(), 1);
  EXPECT_EQ(less.notes(0),
            "the largest request takes 1000 bytes of device memory beside the "
            "weights, and 999 were left to it and to the device's libraries: "
            "set headroom_bytes");
}

}  // namespace
}  // namespace ferry
