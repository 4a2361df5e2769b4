#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ferry/v1/generation_spec.pb.h"
#include "ferry/v1/job.pb.h"
#include "ferry/v1/job_event.pb.h"
#include "ferry/v1/pipeline.pb.h"

namespace ferry {

class OffloadableModule;

// Follows one generation. Every method is called on the thread that called
// Pipeline::generate, and should return quickly.
class GenerationObserver {
 public:
  virtual ~GenerationObserver() = default;

  // Asked before every step and between stages; true ends the generation with
  // CANCELLED.
  virtual bool is_cancelled() = 0;
  // Stages and steps, in order; `queue_position` and `eta` are not set.
  virtual void on_progress(const v1::Progress& progress) = 0;
  // A JPEG of the latents as they are.
  virtual void on_preview(v1::Preview preview) = 0;
  // One finished output: `info` is complete, `data` holds info.size_bytes().
  // An error ends the generation with it.
  virtual absl::Status on_output(const v1::OutputInfo& info,
                                 std::string data) = 0;
};

// What a generation that succeeded reports.
struct GenerationReport {
  // text_encode, denoise, vae_decode and encode are set.
  v1::Timings timings;
  // A prompt had more tokens than the tokenizer's max_length.
  bool prompt_truncated = false;
};

struct PipelineOptions {
  // Default 1. Threads of one operator in this process; bytes are equal for
  // equal counts.
  int intra_op_threads = 1;
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

  // What the package says: tasks, limits, schedulers, defaults and version.
  virtual const v1::Pipeline& description() const = 0;

  // Runs one generation. `spec` has every field that applies filled in and
  // within description(). Errors carry an ErrorInfo:
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
