#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ferry/v1/pipeline.pb.h"
#include "ferry/worker/v1/worker_service.pb.h"
#include "pipelines/pipeline.h"

namespace ferry {

// A pipeline that is ready to run, with all that it stands on.
//
// Threads: made, used and destroyed on the worker's step thread.
class LoadedPipeline {
 public:
  virtual ~LoadedPipeline() = default;

  virtual Pipeline& pipeline() = 0;
  // What the package says and what offloading does.
  virtual v1::Pipeline description() const = 0;
  // Such as cpu or cuda:0.
  virtual std::string device() const = 0;
};

// Loads what LoadPipeline asks for. Errors carry an ErrorInfo or are about the
// package; they end the worker's use, not its process.
using PipelineLoader =
    std::function<absl::StatusOr<std::unique_ptr<LoadedPipeline>>(
        const worker::v1::LoadPipelineRequest& request)>;

}  // namespace ferry
