#pragma once

#include <filesystem>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ferry/v1/generation_spec.pb.h"
#include "ferry/v1/pipeline.pb.h"
#include "pipelines/generation_observer.h"

namespace ferry {

class OffloadableModule;

struct PipelineOptions {
  // Default 1. Threads of one operator in this process; bytes are equal for
  // equal counts.
  int intra_op_threads = 1;
  // Whether load() runs the pipeline once, with the weights on the host. If
  // not, the caller calls warm_up() when they are where they shall be.
  bool warm_up = true;
  // An offload backend will pack the weights before the first request: until
  // then they may lie anywhere in their files.
  bool weights_are_packed = false;
};

// A diffusion pipeline, loaded from a package (pipelines/README.md).
//
// Ownership: owns its modules; the offload backend that is enabled on
//   offloadable_module() must be disabled before the pipeline is destroyed.
// Threads: not thread-safe; confined to the worker's step thread.
// Errors: load() names the file and the attribute. After any error of
//   generate() the pipeline is as before and takes the next request.
class Pipeline {
 public:
  // Loads and validates the package in `directory`. Sets LibTorch's process-
  // wide switches (threads, fusers, determinism). Blocks for the whole load.
  static absl::StatusOr<std::unique_ptr<Pipeline>> load(
      const std::filesystem::path& directory, const PipelineOptions& options);

  virtual ~Pipeline() = default;

  // As few steps as can be, at the smallest size: shows that the methods fit
  // together, so that "loaded" means that a request can succeed, and makes the
  // first request as fast as the others. Errors as generate(), naming the file.
  virtual absl::Status warm_up() = 0;

  // The same at the largest size, and with the most pictures, that the package
  // allows: shows how much memory requests need.
  virtual absl::Status try_largest() = 0;

  // What the package says: tasks, limits, schedulers, defaults and version.
  virtual const v1::Pipeline& description() const = 0;

  // Runs one generation, which begins with what the package holds and draws
  // what its seed says, whatever ran before. `spec` has every field that
  // applies filled in and within description(). Errors carry an ErrorInfo:
  //   INVALID_ARGUMENT    INVALID_FIELD, metadata "field": `spec` is not
  //                       within description()
  //   CANCELLED           is_cancelled() was true
  //   RESOURCE_EXHAUSTED  GPU_OUT_OF_MEMORY (any device memory, the CPU's too)
  //   INTERNAL            NON_FINITE_OUTPUT, metadata "step"; INTERNAL for an
  //                       exception of a module, shortened to one line
  virtual absl::StatusOr<GenerationReport> generate(
      const v1::GenerationSpec& spec, GenerationObserver& observer) = 0;

  // What an offload backend works on.
  virtual OffloadableModule& offloadable_module() = 0;
};

}  // namespace ferry
