#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ferry/v1/generation_spec.pb.h"
#include "ferry/v1/pipeline.pb.h"
#include "ferry/worker/v1/worker_service.pb.h"
#include "pipelines/generation_observer.h"
#include "server/worker/rank_recorders.h"
#include "server/worker/wave_line.h"

namespace ferry {

// The reasons, as ErrorInfo has them, of errors after which the process can
// only end: its device failed, and stays failed; its group of ranks did.
constexpr char kDeviceFailed[] = "DEVICE_FAILED";
constexpr char kGroupFailed[] = "GROUP_FAILED";

// A pipeline that is ready to run, with all that it stands on. An interface, so
// that the service is tested without LibTorch.
//
// Threads: made, used and destroyed on the worker's step thread.
class LoadedPipeline {
 public:
  virtual ~LoadedPipeline() = default;

  // As Pipeline::generate (pipelines/pipeline.h): errors carry an ErrorInfo,
  // and the next request is taken after each but these two.
  virtual absl::StatusOr<GenerationReport> generate(
      const v1::GenerationSpec& spec, GenerationObserver& observer) = 0;
  // What the package says, and what offloading does and did until now.
  virtual v1::Pipeline description() const = 0;
  // Such as cpu or cuda:0.
  virtual std::string device() const = 0;
};

// Loads what LoadPipeline asks for. Called once, on the step thread. What takes
// part in waves is attached to `waves`, what joins a group adds its recorders
// to `recorders`; both outlive the pipeline. An error ends the worker's use,
// not its process, unless it is kDeviceFailed or kGroupFailed.
using PipelineLoader =
    std::function<absl::StatusOr<std::unique_ptr<LoadedPipeline>>(
        const worker::v1::LoadPipelineRequest& request, WaveLine* waves,
        RankRecorders* recorders)>;

}  // namespace ferry
