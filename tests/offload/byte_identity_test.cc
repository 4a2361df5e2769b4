#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "offload/offload_backend.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "offload/placement_backend.h"
#include "offload/resolved_plan.h"
#include "pipelines/torchscript/torch_settings.h"
#include "platform/base/sha256.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/simulated/simulated_platform.h"
#include "tests/offload/stream_case.h"
#include "tests/offload/stream_model.h"
#include "tests/offload/stream_pipeline.h"

namespace ferry {
namespace {

using Tensors = std::vector<at::Tensor>;

// The bytes of tensors, whatever numbers they are.
std::string bytes_of(const Tensors& tensors) {
  std::string bytes;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor dense = tensor.contiguous();
    bytes.append(static_cast<const char*>(dense.const_data_ptr()),
                 dense.nbytes());
  }
  return bytes;
}

SimulatedDeviceOptions device_options() {
  SimulatedDeviceOptions options;
  options.memory_bytes = int64_t{64} << 20;
  options.latency = absl::ZeroDuration();
  options.check = true;
  return options;
}

// The block of the first DiT that is streamed last: at model level the last.
std::string last_streamed_block(const ResolvedPlan& plan, int block_count) {
  std::string path = absl::StrCat(kStreamDit, ".blocks.", block_count - 1);
  for (const PlannedComponent& component : plan.components) {
    if (component.path != kStreamDit || component.stacks.empty()) continue;
    for (const PlannedBlock& block : component.stacks[0].blocks) {
      if (!block.resident) path = block.path;
    }
  }
  return path;
}

class ByteIdentityTest : public testing::Test {
 protected:
  ByteIdentityTest() : scope_(1), platform_(device_options()) {
    set_deterministic_mode();
  }
  ~ByteIdentityTest() override { set_deterministic_mode(); }

  std::unique_ptr<OffloadBackend> make_backend(const StreamCase& wanted) {
    OmniDiffusionConfig config;
    switch (wanted.strategy) {
      case StreamCase::Strategy::kLayerwise:
        config.enable_layerwise_offload = true;
        break;
      case StreamCase::Strategy::kResidentLayers:
        config.enable_distributed_layerwise_offload = true;
        config.dlo_use_allgather = false;
        config.dlo_resident_layers = wanted.resident_blocks();
        break;
      case StreamCase::Strategy::kModelLevel:
        config.enable_cpu_offload = true;
    }
    return std::make_unique<PlacementBackend>(
        platform_, *OffloadConfig::from_od_config(config),
        PlacementBackendOptions{wanted.slots});
  }

  // Runs it offloaded, and compares: output and written state. Notes the block
  // that is streamed last.
  void expect_same(const StreamCase& wanted, OffloadBackend& backend,
                   const std::string& output, const std::string& written,
                   std::string* last_block) {
    ASSERT_EQ(backend.enable(pipeline_->module()), absl::OkStatus());
    *last_block = last_streamed_block(*backend.plan(), wanted.block_count);
    const auto outputs = pipeline_->generate(wanted.input);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_TRUE(bytes_of(*outputs) == output);
    // What nobody writes may not be on the device.
    if (wanted.writes_state()) {
      EXPECT_TRUE(bytes_of(pipeline_->written_state()) == written);
    }
    const OffloadStats stats = backend.stats();
    EXPECT_EQ(stats.streamed_bytes > 0, wanted.streams());
    EXPECT_GE(stats.h2d_bytes, stats.streamed_bytes);
    ASSERT_EQ(backend.disable(), absl::OkStatus());
    EXPECT_EQ(platform_.simulated_device().stats().device.bytes_in_use, 0);
  }

  // As above, after a byte was changed: the output is another one.
  void expect_another(const StreamCase& wanted, OffloadBackend& backend,
                      const std::string& output) {
    ASSERT_EQ(backend.enable(pipeline_->module()), absl::OkStatus());
    const auto outputs = pipeline_->generate(wanted.input);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_FALSE(bytes_of(*outputs) == output);
    ASSERT_EQ(backend.disable(), absl::OkStatus());
  }

  // Makes the pipeline, unless it is that of the case before.
  void make_pipeline(const StreamCase& wanted) {
    if (pipeline_ != nullptr && wanted.model == model_) return;
    torch::jit::getExecutorMode() =
        wanted.executor == StreamCase::Executor::kSimple;
    auto pipeline = StreamPipeline::create(wanted);
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    pipeline_ = *std::move(pipeline);
    model_ = wanted.model;
  }

  void check(const StreamCase& wanted) {
    ASSERT_NO_FATAL_FAILURE(make_pipeline(wanted));
    const auto resident = pipeline_->generate(wanted.input);
    ASSERT_TRUE(resident.ok()) << resident.status();
    const std::string output = bytes_of(*resident);
    const std::string written = bytes_of(pipeline_->written_state());
    EXPECT_TRUE(digests_.insert(sha256_hex(output)).second);
    const auto backend = make_backend(wanted);
    std::string block;
    ASSERT_NO_FATAL_FAILURE(
        expect_same(wanted, *backend, output, written, &block));
    pipeline_->flip_byte(block);
    ASSERT_NO_FATAL_FAILURE(expect_another(wanted, *backend, output));
    pipeline_->flip_byte(block);
    EXPECT_EQ(platform_.simulated_device().violations(),
              std::vector<std::string>());
    streamed_ += wanted.streams() ? 1 : 0;
  }

  TorchScope scope_;
  SimulatedPlatform platform_;
  std::unique_ptr<StreamPipeline> pipeline_;
  uint64_t model_ = 0;
  std::set<std::string> digests_;
  int streamed_ = 0;
};

TEST_F(ByteIdentityTest, OffloadedIsResident) {
  // Some have a single block, which is not streamed: they do not count.
  for (const StreamCase& one : make_stream_cases(1700)) {
    SCOPED_TRACE(one.to_string());
    check(one);
    if (HasFailure()) break;
  }
  std::printf("byte-identity: %d cases\n", streamed_);
  EXPECT_GE(streamed_, 1500);
}

}  // namespace
}  // namespace ferry
