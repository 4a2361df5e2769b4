#pragma once

#include <string>

#include "absl/status/status.h"
#include "pipelines/generation_observer.h"
#include "server/worker/event_queue.h"
#include "server/worker/generation_slot.h"

namespace ferry {

// Turns what a pipeline reports into events of the stream: outputs become
// pieces that fit a message of 1 MiB.
//
// Ownership: slot and queue must outlive it.
// Threads: confined to the step thread.
class QueueObserver final : public GenerationObserver {
 public:
  // With `omit_data` only the outputs' metadata is sent.
  QueueObserver(bool omit_data, GenerationSlot& slot, EventQueue& queue)
      : omit_data_(omit_data), slot_(slot), queue_(queue) {}

  bool is_cancelled() override;
  void on_progress(const v1::Progress& progress) override;
  absl::Status on_preview(v1::Preview preview) override;
  absl::Status on_output(const v1::OutputInfo& info, std::string data) override;

 private:
  const bool omit_data_;
  GenerationSlot& slot_;
  EventQueue& queue_;
};

}  // namespace ferry
