#pragma once

#include <string>

#include "absl/status/status.h"
#include "ferry/v1/job.pb.h"
#include "ferry/v1/job_event.pb.h"

namespace ferry {

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
  // A JPEG of the latents as they are. An error ends the generation with it.
  virtual absl::Status on_preview(v1::Preview preview) = 0;
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

}  // namespace ferry
