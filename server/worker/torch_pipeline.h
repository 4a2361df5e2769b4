#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ferry/v1/generation_spec.pb.h"
#include "ferry/v1/pipeline.pb.h"
#include "offload/get_offload_backend.h"
#include "offload/offload_config.h"
#include "pipelines/generation_observer.h"
#include "pipelines/pipeline.h"
#include "platform/device/platform.h"
#include "server/worker/join_group.h"
#include "server/worker/loaded_pipeline.h"
#include "server/worker/offload_report.h"
#include "server/worker/wave_line.h"

namespace ferry {

// A TorchScript pipeline on its platform, with the backend that ferries its
// weights.
//
//   constructed ──start() true──► ready for generate()
//        ├────────start() false───take_apart()──► taken apart
//        └────────start() error─► of no use
//
// Threads: as LoadedPipeline.
class TorchPipeline final : public LoadedPipeline {
 public:
  // In this order: each stands on those before it.
  struct Parts {
    std::unique_ptr<Platform> platform;
    // Null unless ranks share weights, on their host or by gathering them.
    std::unique_ptr<JoinedGroup> group;
    std::unique_ptr<Pipeline> pipeline;
    OffloadConfig config;
    OffloadBackendChoice choice;
  };

  // `waves` outlives the pipeline; null for a rank without a group.
  TorchPipeline(Parts parts, WaveLine* waves)
      : parts_(std::move(parts)), waves_(waves) {}
  ~TorchPipeline() override;

  // Offloads, and warms up what could not be warmed up on the host. What fails
  // leaves nothing to be used. False: what the group tried is not worth it, and
  // it is to load again. Where ranks share weights, all of them start.
  absl::StatusOr<bool> start(bool warm_up);
  // Drops the pipeline and its backend; returns what others can stand on.
  Parts take_apart();

  absl::StatusOr<GenerationReport> generate(
      const v1::GenerationSpec& spec, GenerationObserver& observer) override;
  v1::Pipeline description() const override;
  std::string device() const override {
    return parts_.platform->torch_device();
  }

 private:
  // What has to be done before it is destroyed.
  absl::Status stop();
  absl::StatusOr<bool> try_start(bool warm_up);
  absl::Status enable_offload();
  absl::Status run_smallest_request();
  // On a device with memory of its own: what it takes, and whether that is what
  // was left to it. `free_bytes` were free when the weights were placed. An
  // error only if nothing can run any more.
  absl::Status try_largest_request(int64_t free_bytes);
  absl::StatusOr<GenerationReport> generate_timed(
      const v1::GenerationSpec& spec, GenerationObserver& observer);
  // Why the process can only end; OK if it need not.
  absl::Status find_loss() const;
  absl::Status find_device_loss() const;
  // The error of a start, or what it comes from.
  absl::Status explain_start(const absl::Status& error) const;
  void log_offload() const;

  Parts parts_;
  WaveLine* const waves_;
  LargestRequest largest_;
};

}  // namespace ferry
