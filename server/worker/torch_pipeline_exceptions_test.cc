// A pipeline whose offload backend throws.

#include <c10/util/Exception.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "ferry/worker/v1/worker_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "offload/get_offload_backend.h"
#include "offload/offload_backend.h"
#include "offload/offload_stats.h"
#include "pipelines/pipeline.h"
#include "pipelines/testing/tiny_pipeline.h"
#include "platform/base/error_info.h"
#include "platform/device/get_platform.h"
#include "platform/device/platform_options.h"
#include "server/worker/offload_settings.h"
#include "server/worker/torch_pipeline.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

// A backend that throws at one place, as LibTorch may at any.
class ThrowingBackend final : public OffloadBackend {
 public:
  enum class Place {
    kNowhere,
    kEnable,
    kConfirm,
    kStats,
    kEndGeneration,
    kDisable
  };

  explicit ThrowingBackend(std::unique_ptr<OffloadBackend> real)
      : real_(std::move(real)) {}

  OffloadStrategy strategy() const override { return real_->strategy(); }
  absl::Status enable(OffloadableModule& module) override {
    pass(Place::kEnable);
    return real_->enable(module);
  }
  absl::Status disable() override {
    pass(Place::kDisable);
    return real_->disable();
  }
  bool is_enabled() const override { return real_->is_enabled(); }
  absl::StatusOr<bool> confirm(absl::FunctionRef<absl::Status()> run) override {
    pass(Place::kConfirm);
    return real_->confirm(run);
  }
  void end_generation() override {
    pass(Place::kEndGeneration);
    real_->end_generation();
  }
  OffloadStats stats() const override {
    pass(Place::kStats);
    return real_->stats();
  }
  const ResolvedPlan* plan() const override { return real_->plan(); }
  std::string reason() const override { return real_->reason(); }

  Place place = Place::kNowhere;
  std::function<void()> raise;

 private:
  void pass(Place here) const {
    if (here == place) raise();
  }

  const std::unique_ptr<OffloadBackend> real_;
};

using Place = ThrowingBackend::Place;

class SilentObserver final : public GenerationObserver {
 public:
  bool is_cancelled() override { return false; }
  void on_progress(const v1::Progress& /*progress*/) override {}
  absl::Status on_preview(v1::Preview /*preview*/) override {
    return absl::OkStatus();
  }
  absl::Status on_output(const v1::OutputInfo& /*info*/,
                         std::string /*data*/) override {
    return absl::OkStatus();
  }
};

class TorchPipelineExceptionsTest : public ::testing::Test {
 protected:
  struct Made {
    std::unique_ptr<TorchPipeline> pipeline;
    ThrowingBackend* backend = nullptr;
  };

  static void SetUpTestSuite() {
    ASSERT_TRUE(write_tiny_pipeline(directory(), {}).ok());
  }

  static std::filesystem::path directory() {
    return std::filesystem::path(::testing::TempDir()) / "torch_pipeline";
  }

  // Blocks are streamed to a simulated device.
  static Made make() {
    PlatformOptions options;
    options.name = "simulated";
    worker::v1::LoadPipelineRequest request;
    request.set_world_size(1);
    request.mutable_offload()->set_mode("layer");
    request.mutable_offload()->add_components("dit");
    TorchPipeline::Parts parts;
    parts.config = *make_offload_config(request);
    parts.platform = *get_platform(options);
    parts.choice = *get_offload_backend(parts.config, *parts.platform);
    parts.pipeline = *Pipeline::load(directory(), {1, false, true});
    auto backend =
        std::make_unique<ThrowingBackend>(std::move(parts.choice.backend));
    Made made;
    made.backend = backend.get();
    parts.choice.backend = std::move(backend);
    made.pipeline = std::make_unique<TorchPipeline>(std::move(parts), nullptr);
    return made;
  }

  static v1::GenerationSpec make_spec(const TorchPipeline& pipeline) {
    v1::GenerationSpec spec = pipeline.description().defaults();
    spec.set_prompt("a red circle");
    spec.set_num_inference_steps(1);
    return spec;
  }

  static absl::Status generate(TorchPipeline& pipeline,
                               const v1::GenerationSpec& spec) {
    SilentObserver observer;
    return pipeline.generate(spec, observer).status();
  }
};

TEST_F(TorchPipelineExceptionsTest, WhatABackendThrowsIsAnErrorOfTheStart) {
  for (const Place place : {Place::kEnable, Place::kConfirm}) {
    Made made = make();
    made.backend->place = place;
    made.backend->raise = [] { TORCH_CHECK(false, "an odd tensor"); };
    const absl::Status odd = made.pipeline->start(true).status();
    EXPECT_EQ(odd.code(), absl::StatusCode::kInternal) << odd;
    EXPECT_EQ(odd.message(), "offload: an odd tensor");
  }
}

TEST_F(TorchPipelineExceptionsTest,
       AfterWhatABackendThrowsTheNextGenerationRuns) {
  Made made = make();
  ASSERT_TRUE(made.pipeline->start(true).ok());
  const v1::GenerationSpec spec = make_spec(*made.pipeline);
  for (const Place place : {Place::kStats, Place::kEndGeneration}) {
    made.backend->place = place;
    made.backend->raise = [] { throw std::bad_alloc(); };
    const absl::Status memory = generate(*made.pipeline, spec);
    EXPECT_EQ(memory.code(), absl::StatusCode::kResourceExhausted) << memory;
    made.backend->raise = [] { throw 42; };
    const absl::Status unknown = generate(*made.pipeline, spec);
    EXPECT_EQ(get_error_info(unknown)->reason, "INTERNAL");
    EXPECT_THAT(std::string(unknown.message()), HasSubstr("generation: "));
    made.backend->place = Place::kNowhere;
    EXPECT_TRUE(generate(*made.pipeline, spec).ok());
  }
}

// Its destructor would end the process with an exception that leaves it.
TEST_F(TorchPipelineExceptionsTest, IsDestroyedThoughItsBackendThrows) {
  for (const std::function<void()>& raise :
       {std::function<void()>([] { TORCH_CHECK(false, "an odd tensor"); }),
        std::function<void()>([] { throw std::bad_alloc(); }),
        std::function<void()>([] { throw 42; })}) {
    Made made = make();
    ASSERT_TRUE(made.pipeline->start(false).ok());
    made.backend->place = Place::kDisable;
    made.backend->raise = raise;
    made.pipeline.reset();
  }
}

}  // namespace
}  // namespace ferry
