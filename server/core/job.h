#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ferry/v1/generation_spec.pb.h"
#include "ferry/v1/job.pb.h"
#include "ferry/v1/job_event.pb.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"
#include "server/core/generation_work.h"

namespace ferry {

// One generation and its state.
//
//   QUEUED ──start()──► RUNNING ──finish(OK)──► SUCCEEDED
//     │                    ├──────finish(CANCELLED …)──► CANCELLED
//     │                    └──────finish(other error)──► FAILED
//     └──finish(error)──► CANCELLED or FAILED
//
// A finished job never changes again: the first finish() counts. Whoever wants
// a job to end calls request_cancel() with the error that the job shall end
// with; the cancel callback reaches the queue or the rank, and the
// GenerationManager calls finish() with that error, at once for a queued job,
// else once the rank is free. Which errors make CANCELLED: code CANCELLED,
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
    GenerationWork work;
    // Monotonic time (Clock::monotonic) at which it leaves the queue with
    // QUEUE_TIMEOUT; infinite when unset.
    absl::Duration queue_deadline = absl::InfiniteDuration();
    // Monotonic time of the client's deadline; ends the job also when running.
    absl::Duration deadline = absl::InfiniteDuration();
    std::map<std::string, std::string> labels;
    // The answer to validate_only: a job that never runs, in
    // STATE_UNSPECIFIED, which counts as finished; its only event is the Job.
    bool validate_only = false;
  };

  using Events = std::vector<std::shared_ptr<const v1::JobEvent>>;

  // Progress events and previews that are kept for a slow reader.
  static constexpr int kKeptProgress = 256;
  static constexpr int kKeptPreviews = 4;

  // `clock` must outlive the job.
  Job(Options options, const Clock& clock);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Constant after construction.
  const std::string& name() const { return options_.name; }
  const std::string& pipeline() const { return options_.pipeline; }
  const v1::GenerationSpec& effective_spec() const {
    return options_.effective_spec;
  }
  int priority() const { return options_.priority; }
  const GenerationWork& work() const { return options_.work; }
  absl::Duration queue_deadline() const { return options_.queue_deadline; }
  absl::Duration deadline() const { return options_.deadline; }
  // Monotonic time of construction.
  absl::Duration created() const { return created_; }
  // What the job costs the queue: bytes of its request.
  int64_t queue_bytes() const { return queue_bytes_; }

  // The job as it is now, with spec and outputs.
  v1::Job snapshot() const EXCLUDES_LOCK(mutex_);
  // The same without them, for lists.
  v1::Job summary() const EXCLUDES_LOCK(mutex_);
  v1::Job::State state() const EXCLUDES_LOCK(mutex_);
  bool is_finished() const EXCLUDES_LOCK(mutex_);

  // QUEUED → RUNNING. False when it is finished or was asked to end.
  bool start() EXCLUDES_LOCK(mutex_);
  // Ends the job; a second call changes nothing. Returns whether it counted.
  // OK counts only in RUNNING.
  bool finish(const absl::Status& status) EXCLUDES_LOCK(mutex_);
  // Asks a queued or running job to end with `error`. The first error counts.
  // The cancel callback is called, without the lock held, on this thread.
  // Returns false when the job is finished.
  // REQUIRES: !error.ok().
  bool request_cancel(const absl::Status& error) EXCLUDES_LOCK(mutex_);
  // The error of request_cancel, or OK.
  absl::Status cancel_error() const EXCLUDES_LOCK(mutex_);
  // How to reach who holds the job: the queue, later the rank. Called at once
  // when the job was asked to end before. Dropped when the job finishes.
  // REQUIRES: on_cancel != nullptr.
  void set_cancel_callback(std::function<void()> on_cancel)
      EXCLUDES_LOCK(mutex_);

  // Writers; ignored once finished. Fraction and time left are filled in here:
  // the fraction never falls.
  void add_progress(v1::Progress progress) EXCLUDES_LOCK(mutex_);
  void add_preview(v1::Preview preview) EXCLUDES_LOCK(mutex_);
  void add_output_chunk(v1::OutputChunk chunk) EXCLUDES_LOCK(mutex_);
  void set_summary(const v1::Timings& rank_timings, bool prompt_truncated)
      EXCLUDES_LOCK(mutex_);
  // Jobs before it, by priority and arrival.
  void set_queue_position(int position) EXCLUDES_LOCK(mutex_);

  // Appends to `events` those after `*cursor` that are there, at most
  // `max_bytes` of them but at least one, and moves the cursor. They are
  // shared, and never change. Waits up to `timeout` for the first one. Returns
  // false when the job is finished and every event was read.
  bool read_events(int64_t* cursor, absl::Duration timeout, Events* events,
                   int64_t max_bytes) EXCLUDES_LOCK(mutex_);

  // Frees the output bytes and the events, those to come too; metadata stays.
  void drop_outputs() EXCLUDES_LOCK(mutex_);

 private:
  bool finished_locked() const REQUIRES_LOCK(mutex_);
  v1::Job snapshot_locked() const REQUIRES_LOCK(mutex_);
  void add_event_locked(v1::JobEvent event) REQUIRES_LOCK(mutex_);
  void add_job_event_locked() REQUIRES_LOCK(mutex_);
  // Removes the oldest event of a kind when more than `kept` are there.
  void trim_locked(v1::JobEvent::EventCase kind, size_t kept)
      REQUIRES_LOCK(mutex_);

  const Options options_;
  const Clock& clock_;
  const absl::Duration created_;
  const int64_t queue_bytes_;

  mutable Mutex mutex_;
  CondVar changed_;
  // Everything that clients see but the spec.
  v1::Job job_ GUARDED_BY(mutex_);
  // Monotonic.
  absl::Duration started_ GUARDED_BY(mutex_);
  absl::Status cancel_error_ GUARDED_BY(mutex_);
  std::function<void()> on_cancel_ GUARDED_BY(mutex_);
  // By sequence.
  std::map<int64_t, std::shared_ptr<const v1::JobEvent>> events_
      GUARDED_BY(mutex_);
  // Sequences of the kept events that may be dropped, by kind.
  std::map<v1::JobEvent::EventCase, std::deque<int64_t>> droppable_
      GUARDED_BY(mutex_);
  int64_t last_sequence_ GUARDED_BY(mutex_) = 0;
  bool outputs_dropped_ GUARDED_BY(mutex_) = false;
};

}  // namespace ferry
