#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>
#include <torch/script.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "offload/offload_backend.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "offload/placement_backend.h"
#include "pipelines/torchscript/torch_settings.h"
#include "platform/base/sha256.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/simulated/simulated_platform.h"
#include "tests/offload/stream_case.h"
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

// Some of the cases: they are dealt to shards.
class ByteIdentityTest : public testing::TestWithParam<int> {
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

  // Runs it offloaded, and compares: output and written state.
  void expect_same(StreamPipeline& pipeline, OffloadBackend& backend,
                   bool streams, const std::string& output,
                   const std::string& written) {
    ASSERT_EQ(backend.enable(pipeline.module()), absl::OkStatus());
    const auto outputs = pipeline.generate();
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ(bytes_of(*outputs), output);
    const OffloadStats stats = backend.stats();
    EXPECT_EQ(stats.h2d_bytes > 0, streams);
    EXPECT_GE(stats.h2d_bytes, stats.streamed_bytes);
    ASSERT_EQ(backend.disable(), absl::OkStatus());
    EXPECT_EQ(bytes_of(pipeline.written_state()), written);
    EXPECT_EQ(platform_.simulated_device().stats().device.bytes_in_use, 0);
  }

  // As above, after a byte was changed: the output is another one.
  void expect_another(StreamPipeline& pipeline, OffloadBackend& backend,
                      const std::string& output) {
    ASSERT_EQ(backend.enable(pipeline.module()), absl::OkStatus());
    const auto outputs = pipeline.generate();
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_NE(bytes_of(*outputs), output);
    ASSERT_EQ(backend.disable(), absl::OkStatus());
  }

  void check(const StreamCase& wanted) {
    torch::jit::getExecutorMode() =
        wanted.executor == StreamCase::Executor::kSimple;
    const auto pipeline = StreamPipeline::create(wanted);
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    const auto resident = (*pipeline)->generate();
    ASSERT_TRUE(resident.ok()) << resident.status();
    const std::string output = bytes_of(*resident);
    const std::string written = bytes_of((*pipeline)->written_state());
    digests_.insert(sha256_hex(output));
    const auto backend = make_backend(wanted);
    (*pipeline)->restore_state();
    expect_same(**pipeline, *backend, wanted.streams(), output, written);
    streamed_ += wanted.streams() ? 1 : 0;
    (*pipeline)->restore_state();
    (*pipeline)->flip_byte_of_last_block();
    expect_another(**pipeline, *backend, output);
    EXPECT_EQ(platform_.simulated_device().violations(),
              std::vector<std::string>());
  }

  TorchScope scope_;
  SimulatedPlatform platform_;
  std::set<std::string> digests_;
  int streamed_ = 0;
};

constexpr size_t kCases = 1800;
constexpr int kShards = 16;

INSTANTIATE_TEST_SUITE_P(Shards, ByteIdentityTest, testing::Range(0, kShards));

TEST_P(ByteIdentityTest, OffloadedIsResident) {
  const std::vector<StreamCase> cases = make_stream_cases(kCases);
  size_t done = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (static_cast<int>(i % kShards) != GetParam()) continue;
    SCOPED_TRACE(cases[i].to_string());
    check(cases[i]);
    if (HasFailure()) break;
    ++done;
  }
  EXPECT_EQ(digests_.size(), done);
  // Those whose blocks or components came and went.
  std::printf("byte-identity: %d cases\n", streamed_);
}

}  // namespace
}  // namespace ferry
