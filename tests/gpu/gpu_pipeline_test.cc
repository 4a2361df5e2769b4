// Whole pipelines on a GPU: offloaded, they generate the same bytes as
// resident, and each time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ferry/config/v1/offload_config.pb.h"
#include "ferry/v1/generation_spec.pb.h"
#include "ferry/v1/offload_report.pb.h"
#include "ferry/worker/v1/worker_service.pb.h"
#include "pipelines/generation_observer.h"
#include "pipelines/testing/tiny_pipeline.h"
#include "platform/base/status_macros.h"
#include "platform/device/get_platform.h"
#include "platform/device/platform.h"
#include "server/worker/loaded_pipeline.h"
#include "server/worker/pipeline_loader.h"

namespace ferry {
namespace {

class OutputObserver final : public GenerationObserver {
 public:
  bool is_cancelled() override { return cancel; }
  void on_progress(const v1::Progress&) override {}
  absl::Status on_preview(v1::Preview) override { return absl::OkStatus(); }
  absl::Status on_output(const v1::OutputInfo&, std::string data) override {
    output += data;
    return absl::OkStatus();
  }

  bool cancel = false;
  std::string output;
};

struct Policy {
  std::string name;
  std::function<void(config::v1::OffloadConfig*)> set;
  bool streams = true;
};

void select(config::v1::OffloadConfig* offload, const std::string& mode) {
  offload->set_mode(mode);
  offload->add_components("dit");
  offload->add_components("text_encoder");
}

std::vector<Policy> policies() {
  return {
      {"auto", [](auto* offload) { offload->set_mode("auto"); }, false},
      {"module", [](auto* offload) { select(offload, "module"); }},
      {"layer", [](auto* offload) { select(offload, "layer"); }},
      // Its copies go through staging buffers.
      {"layer, not pinned",
       [](auto* offload) {
         select(offload, "layer");
         offload->set_pin_memory(false);
       }},
  };
}

class GpuPipelineTest : public testing::Test {
 protected:
  // The tiny package, or why there is no GPU.
  static const absl::StatusOr<std::filesystem::path>& tiny() {
    static const absl::StatusOr<std::filesystem::path> kMade =
        []() -> absl::StatusOr<std::filesystem::path> {
      // Before anything else of LibTorch: see get_platform().
      RETURN_IF_ERROR(get_platform({"cuda"}).status());
      const auto folder = std::filesystem::path(testing::TempDir()) / "tiny";
      RETURN_IF_ERROR(write_tiny_pipeline(folder, {}));
      return folder;
    }();
    return kMade;
  }

  void SetUp() override {
    if (tiny().ok()) return;
    if (std::getenv("FERRY_REQUIRE_GPU") != nullptr) FAIL() << tiny().status();
    GTEST_SKIP() << tiny().status().message();
  }

  static worker::v1::LoadPipelineRequest request(
      const std::filesystem::path& package) {
    worker::v1::LoadPipelineRequest request;
    request.set_pipeline("pipelines/gpu");
    request.set_package_dir(std::filesystem::absolute(package));
    request.set_world_size(1);
    request.set_intra_op_threads(1);
    request.mutable_platform()->set_platform("cuda");
    return request;
  }

  static absl::StatusOr<std::string> generate(LoadedPipeline& pipeline) {
    v1::GenerationSpec spec = pipeline.description().defaults();
    spec.set_prompt("a red circle");
    spec.set_seed(7);
    spec.set_num_images(1);
    OutputObserver observer;
    const auto report = pipeline.generate(spec, observer);
    if (!report.ok()) return report.status();
    return observer.output;
  }

  // Resident, then with every policy, five times: all are the same bytes.
  static void compare(const std::filesystem::path& package) {
    worker::v1::LoadPipelineRequest resident = request(package);
    resident.mutable_offload()->set_mode("none");
    std::string expected;
    {
      const auto loaded = load_pipeline(resident);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_EQ((*loaded)->device(), "cuda:0");
      for (int run = 1; run <= 5; ++run) {
        const auto output = generate(**loaded);
        ASSERT_TRUE(output.ok()) << output.status();
        if (run == 1) expected = *output;
        EXPECT_EQ(*output, expected) << "resident, run " << run;
      }
    }
    ASSERT_FALSE(expected.empty());
    for (const Policy& policy : policies()) {
      worker::v1::LoadPipelineRequest offloaded = request(package);
      policy.set(offloaded.mutable_offload());
      const auto loaded = load_pipeline(offloaded);
      ASSERT_TRUE(loaded.ok()) << policy.name << ": " << loaded.status();
      for (int run = 1; run <= 5; ++run) {
        const auto output = generate(**loaded);
        ASSERT_TRUE(output.ok()) << policy.name << ": " << output.status();
        EXPECT_TRUE(*output == expected) << policy.name << ", run " << run;
      }
      const v1::OffloadReport report = (*loaded)->description().offload();
      EXPECT_EQ(report.streamed_bytes() > 0, policy.streams) << policy.name;
      std::printf("%s: %s, host memory %s, %lld bytes streamed\n",
                  policy.name.c_str(), report.strategy().c_str(),
                  report.host_memory().c_str(),
                  static_cast<long long>(report.streamed_bytes()));
    }
  }
};

TEST_F(GpuPipelineTest, TheTinyPipelineIsTheSameOffloaded) { compare(*tiny()); }

TEST_F(GpuPipelineTest, TheDemoIsTheSameOffloaded) {
  compare("pipelines/demo/package");
}

TEST_F(GpuPipelineTest, GoesOnAfterACancel) {
  worker::v1::LoadPipelineRequest layer = request(*tiny());
  select(layer.mutable_offload(), "layer");
  const auto loaded = load_pipeline(layer);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto before = generate(**loaded);
  ASSERT_TRUE(before.ok()) << before.status();
  v1::GenerationSpec spec = (*loaded)->description().defaults();
  spec.set_prompt("a red circle");
  spec.set_num_images(1);
  OutputObserver cancelled;
  cancelled.cancel = true;
  EXPECT_EQ((*loaded)->generate(spec, cancelled).status().code(),
            absl::StatusCode::kCancelled);
  const auto after = generate(**loaded);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_TRUE(*before == *after);
}

// Nothing stays behind when a pipeline goes.
TEST_F(GpuPipelineTest, GivesItsMemoryBack) {
  int64_t first = 0;
  for (int round = 0; round < 5; ++round) {
    worker::v1::LoadPipelineRequest layer = request(*tiny());
    select(layer.mutable_offload(), "layer");
    {
      const auto loaded = load_pipeline(layer);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      ASSERT_TRUE(generate(**loaded).ok());
    }
    const auto platform = get_platform({"cuda"});
    ASSERT_TRUE(platform.ok()) << platform.status();
    (*platform)->empty_cache();
    const int64_t free = (*platform)->memory_info()->free_bytes;
    if (round == 0) first = free;
    EXPECT_GE(free, first - first / 100) << round;
  }
}

// CudaDevice::kLibraryBytes is as much as is left alone, and enough.
TEST_F(GpuPipelineTest, LibrariesTakeNoMoreThanPlansLeaveThem) {
  const auto platform = get_platform({"cuda"});
  ASSERT_TRUE(platform.ok()) << platform.status();
  (*platform)->empty_cache();
  const int64_t before = (*platform)->memory_info()->free_bytes;
  worker::v1::LoadPipelineRequest resident = request(*tiny());
  resident.mutable_offload()->set_mode("none");
  const auto loaded = load_pipeline(resident);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(generate(**loaded).ok());
  const v1::OffloadReport report = (*loaded)->description().offload();
  EXPECT_GT(report.largest_request_bytes(), 0);
  EXPECT_EQ(report.notes_size(), 0);
  (*platform)->empty_cache();
  const int64_t taken =
      before - (*platform)->memory_info()->free_bytes - report.device_bytes();
  std::printf("libraries: %lld bytes, the largest request: %lld\n",
              static_cast<long long>(taken),
              static_cast<long long>(report.largest_request_bytes()));
  EXPECT_LE(taken, (*platform)->device()->library_bytes());
}

}  // namespace
}  // namespace ferry
