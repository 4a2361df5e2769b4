#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ferry/v1/generation_spec.pb.h"
#include "ferry/v1/job.pb.h"
#include "ferry/v1/job_event.pb.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"

namespace ferry {

// One generation and its state.
//
//   QUEUED ──start()──► RUNNING ──finish(OK)──► SUCCEEDED
//     │                    ├──────finish(CANCELLED …)──► CANCELLED
//     │                    └──────finish(other error)──► FAILED
//     └──finish(error)──► CANCELLED or FAILED
//
// A finished job never changes again: the first finish() counts. Whoever wants
// a running job to end calls request_cancel() with the error that the job shall
// end with; the rank is told, and the scheduler calls finish() with that error
// once the rank is free. Which errors make CANCELLED: code CANCELLED,
// DEADLINE_EXCEEDED, and UNAVAILABLE with reason SERVER_DRAINING; all others
// make FAILED.
//
// Events: numbered from 1; the first is the Job, every change of state adds a
// Job, and progress, previews and output chunks come between. A reader holds a
// cursor. Events are kept in a bounded buffer: of progress and previews only
// the newest are kept when a reader is slow; Job events and chunks are never
// dropped. Output bytes live once, here, until drop_outputs().
//
// Ownership: shared by the registry, the queue and the stream that reads it.
// Threads: thread-safe.
class Job {
 public:
  struct Options {
    // `jobs/{32 hex digits}`.
    std::string name;
    // Every default filled in.
    v1::GenerationSpec effective_spec;
    // `pipelines/{pipeline}`.
    std::string pipeline;
    int priority = 0;
    // Monotonic time (Clock::monotonic) at which it leaves the queue with
    // QUEUE_TIMEOUT; infinite when unset.
    absl::Duration queue_deadline = absl::InfiniteDuration();
    // Monotonic time of the client's deadline; ends the job also when running.
    absl::Duration deadline = absl::InfiniteDuration();
    std::map<std::string, std::string> labels;
  };

  Job(Options options, const Clock& clock);

  // Constant after construction.
  const std::string& name() const;
  const std::string& pipeline() const;
  const v1::GenerationSpec& effective_spec() const;
  int priority() const;
  absl::Duration queue_deadline() const;
  absl::Duration deadline() const;
  // What the job costs the queue: bytes of its request.
  int64_t queue_bytes() const;

  // The job as it is now, with spec and outputs.
  v1::Job snapshot() const;
  bool is_finished() const;

  // QUEUED → RUNNING. False when it is finished or was asked to end.
  bool start();
  // Ends the job; a second call changes nothing. Returns whether it counted.
  bool finish(const absl::Status& status);
  // Asks a queued or running job to end with `error`. The first error counts.
  // `on_cancel` of the running rank is called, without the lock held.
  // Returns false when the job is finished.
  bool request_cancel(const absl::Status& error);
  // The error of request_cancel, or OK.
  absl::Status cancel_error() const;
  // Set by the scheduler while the job runs: how to reach the rank. Called at
  // once when the job was asked to end before.
  void set_cancel_callback(std::function<void()> on_cancel);

  // Writers; ignored once finished.
  void add_progress(v1::Progress progress);
  void add_preview(v1::Preview preview);
  void add_output_chunk(v1::OutputChunk chunk);
  void set_summary(const v1::Timings& rank_timings, bool prompt_truncated);
  void set_queue_position(int position);

  // Appends to `events` those after `*cursor` that are there, at most
  // `max_bytes` of them but at least one, and moves the cursor. Waits up to
  // `timeout` for the first one. Returns false when the job is finished and
  // every event was read.
  bool read_events(int64_t* cursor, absl::Duration timeout,
                   std::vector<v1::JobEvent>* events, int64_t max_bytes);

  // Frees the output bytes and the events; metadata stays.
  void drop_outputs();
};

}  // namespace ferry
