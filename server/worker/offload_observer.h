#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "ferry/v1/job.pb.h"
#include "ferry/v1/job_event.pb.h"
#include "offload/offload_backend.h"
#include "pipelines/generation_observer.h"
#include "platform/base/status_macros.h"

namespace ferry {

// Tells a backend when the last step of a denoising loop begins, and everything
// to another observer. Pictures it passes on only when the backend says that
// all went well that they were computed with; else that error ends the
// generation.
//
// Ownership: refers to both. Threads: as GenerationObserver.
class OffloadObserver final : public GenerationObserver {
 public:
  OffloadObserver(OffloadBackend& backend, GenerationObserver& observer)
      : backend_(backend), observer_(observer) {}

  bool is_cancelled() override { return observer_.is_cancelled(); }
  void on_progress(const v1::Progress& progress) override {
    // Steps that have been made.
    if (progress.stage() == v1::Progress::STAGE_DENOISE &&
        progress.step() + 1 == progress.total_steps()) {
      backend_.begin_last_step();
    }
    observer_.on_progress(progress);
  }
  absl::Status on_preview(v1::Preview preview) override {
    RETURN_IF_ERROR(backend_.check());
    return observer_.on_preview(std::move(preview));
  }
  absl::Status on_output(const v1::OutputInfo& info,
                         std::string data) override {
    RETURN_IF_ERROR(backend_.check());
    return observer_.on_output(info, std::move(data));
  }

 private:
  OffloadBackend& backend_;
  GenerationObserver& observer_;
};

}  // namespace ferry
