#include "server/core/job.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "platform/base/check.h"
#include "platform/base/error_info.h"
#include "server/core/proto_time.h"
#include "server/core/rpc_status.h"

namespace ferry {
namespace {

bool ends_cancelled(const absl::Status& error) {
  if (absl::IsCancelled(error) || absl::IsDeadlineExceeded(error)) return true;
  const std::optional<ErrorInfo> info = get_error_info(error);
  return absl::IsUnavailable(error) && info.has_value() &&
         info->reason == "SERVER_DRAINING";
}

// Share of the whole run that is behind a progress: text encoding, decoding
// and picture encoding take a few percent each, the steps the rest.
double fraction_of(const v1::Progress& progress) {
  constexpr double kDenoiseBegin = 0.02;
  constexpr double kDecodeBegin = 0.92;
  constexpr double kEncodeBegin = 0.98;
  switch (progress.stage()) {
    case v1::Progress::STAGE_DENOISE:
      if (progress.total_steps() <= 0) return kDenoiseBegin;
      return kDenoiseBegin +
             (kDecodeBegin - kDenoiseBegin) *
                 std::clamp(static_cast<double>(progress.step()) /
                                progress.total_steps(),
                            0.0, 1.0);
    case v1::Progress::STAGE_DECODE:
      return kDecodeBegin;
    case v1::Progress::STAGE_ENCODE:
      return kEncodeBegin;
    default:
      return 0;
  }
}

int64_t request_bytes(const Job::Options& options) {
  int64_t bytes = static_cast<int64_t>(options.effective_spec.ByteSizeLong());
  for (const auto& [key, value] : options.labels) {
    bytes += static_cast<int64_t>(key.size() + value.size());
  }
  return bytes;
}

}  // namespace

Job::Job(Options options, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      created_(clock.monotonic()),
      queue_bytes_(request_bytes(options_)) {
  MutexLock lock(&mutex_);
  job_.set_name(options_.name);
  job_.set_state(options_.validate_only ? v1::Job::STATE_UNSPECIFIED
                                        : v1::Job::STATE_QUEUED);
  job_.set_pipeline(options_.pipeline);
  job_.set_priority(options_.priority);
  job_.mutable_labels()->insert(options_.labels.begin(), options_.labels.end());
  *job_.mutable_create_time() = to_proto(clock_.now());
  add_job_event_locked();
}

v1::Job Job::snapshot() const {
  MutexLock lock(&mutex_);
  return snapshot_locked();
}

v1::Job Job::snapshot_locked() const {
  v1::Job job = job_;
  *job.mutable_effective_spec() = options_.effective_spec;
  return job;
}

v1::Job Job::summary() const {
  MutexLock lock(&mutex_);
  v1::Job job = job_;
  job.clear_outputs();
  return job;
}

v1::Job::State Job::state() const {
  MutexLock lock(&mutex_);
  return job_.state();
}

bool Job::is_finished() const {
  MutexLock lock(&mutex_);
  return finished_locked();
}

bool Job::finished_locked() const {
  return job_.state() != v1::Job::STATE_QUEUED &&
         job_.state() != v1::Job::STATE_RUNNING;
}

bool Job::start() {
  MutexLock lock(&mutex_);
  if (job_.state() != v1::Job::STATE_QUEUED || !cancel_error_.ok()) {
    return false;
  }
  job_.set_state(v1::Job::STATE_RUNNING);
  started_ = clock_.monotonic();
  *job_.mutable_start_time() = to_proto(clock_.now());
  *job_.mutable_timings()->mutable_queue() = to_proto(started_ - created_);
  job_.mutable_progress()->set_queue_position(0);
  add_job_event_locked();
  return true;
}

bool Job::finish(const absl::Status& status) {
  // Destroyed without the lock held.
  std::function<void()> on_cancel;
  MutexLock lock(&mutex_);
  if (finished_locked()) return false;
  if (status.ok() && job_.state() != v1::Job::STATE_RUNNING) return false;
  v1::Timings& timings = *job_.mutable_timings();
  const absl::Duration now = clock_.monotonic();
  *timings.mutable_total() = to_proto(now - created_);
  if (job_.state() == v1::Job::STATE_QUEUED) {
    *timings.mutable_queue() = to_proto(now - created_);
  }
  *job_.mutable_end_time() = to_proto(clock_.now());
  v1::Progress& progress = *job_.mutable_progress();
  progress.set_queue_position(0);
  progress.clear_eta();
  if (status.ok()) {
    job_.set_state(v1::Job::STATE_SUCCEEDED);
    progress.set_fraction(1);
  } else {
    job_.set_state(ends_cancelled(status) ? v1::Job::STATE_CANCELLED
                                          : v1::Job::STATE_FAILED);
    *job_.mutable_error() = to_rpc_status(status);
    // Parts of outputs are no outputs.
    job_.clear_outputs();
  }
  std::swap(on_cancel, on_cancel_);
  add_job_event_locked();
  return true;
}

bool Job::request_cancel(const absl::Status& error) {
  FERRY_CHECK(!error.ok());
  std::function<void()> on_cancel;
  {
    MutexLock lock(&mutex_);
    if (finished_locked()) return false;
    if (!cancel_error_.ok()) return true;
    cancel_error_ = error;
    on_cancel = on_cancel_;
  }
  if (on_cancel) on_cancel();
  return true;
}

absl::Status Job::cancel_error() const {
  MutexLock lock(&mutex_);
  return cancel_error_;
}

void Job::set_cancel_callback(std::function<void()> on_cancel) {
  FERRY_CHECK(on_cancel != nullptr);
  {
    MutexLock lock(&mutex_);
    if (finished_locked()) return;
    if (cancel_error_.ok()) {
      std::swap(on_cancel_, on_cancel);
      return;
    }
    on_cancel_ = on_cancel;
  }
  on_cancel();
}

void Job::add_progress(v1::Progress progress) {
  MutexLock lock(&mutex_);
  if (job_.state() != v1::Job::STATE_RUNNING) return;
  progress.set_queue_position(0);
  progress.set_fraction(
      std::max(job_.progress().fraction(), fraction_of(progress)));
  if (progress.fraction() > 0 && progress.step() > 0) {
    const absl::Duration elapsed = clock_.monotonic() - started_;
    *progress.mutable_eta() =
        to_proto(elapsed * ((1 - progress.fraction()) / progress.fraction()));
  } else {
    progress.clear_eta();
  }
  *job_.mutable_progress() = progress;
  v1::JobEvent event;
  *event.mutable_progress() = std::move(progress);
  add_event_locked(std::move(event));
}

void Job::add_preview(v1::Preview preview) {
  MutexLock lock(&mutex_);
  if (job_.state() != v1::Job::STATE_RUNNING) return;
  v1::JobEvent event;
  *event.mutable_preview() = std::move(preview);
  add_event_locked(std::move(event));
}

void Job::add_output_chunk(v1::OutputChunk chunk) {
  MutexLock lock(&mutex_);
  if (job_.state() != v1::Job::STATE_RUNNING) return;
  if (chunk.has_final_info()) *job_.add_outputs() = chunk.final_info();
  v1::JobEvent event;
  *event.mutable_output_chunk() = std::move(chunk);
  add_event_locked(std::move(event));
}

void Job::set_summary(const v1::Timings& rank_timings, bool prompt_truncated) {
  MutexLock lock(&mutex_);
  if (job_.state() != v1::Job::STATE_RUNNING) return;
  v1::Timings timings = rank_timings;
  *timings.mutable_queue() = job_.timings().queue();
  timings.clear_total();
  *job_.mutable_timings() = std::move(timings);
  job_.set_prompt_truncated(prompt_truncated);
}

void Job::set_queue_position(int position) {
  MutexLock lock(&mutex_);
  if (job_.state() != v1::Job::STATE_QUEUED ||
      job_.progress().queue_position() == position) {
    return;
  }
  job_.mutable_progress()->set_queue_position(position);
  v1::JobEvent event;
  *event.mutable_progress() = job_.progress();
  add_event_locked(std::move(event));
}

void Job::add_job_event_locked() {
  v1::JobEvent event;
  *event.mutable_job() = snapshot_locked();
  add_event_locked(std::move(event));
}

void Job::add_event_locked(v1::JobEvent event) {
  event.set_sequence(++last_sequence_);
  if (!outputs_dropped_) {
    const v1::JobEvent::EventCase kind = event.event_case();
    events_.emplace(last_sequence_,
                    std::make_shared<const v1::JobEvent>(std::move(event)));
    if (kind == v1::JobEvent::kProgress) trim_locked(kind, kKeptProgress);
    if (kind == v1::JobEvent::kPreview) trim_locked(kind, kKeptPreviews);
  }
  changed_.notify_all();
}

void Job::trim_locked(v1::JobEvent::EventCase kind, size_t kept) {
  std::deque<int64_t>& sequences = droppable_[kind];
  sequences.push_back(last_sequence_);
  if (sequences.size() <= kept) return;
  events_.erase(sequences.front());
  sequences.pop_front();
}

bool Job::read_events(int64_t* cursor, absl::Duration timeout, Events* events,
                      int64_t max_bytes) {
  const auto deadline =
      std::chrono::steady_clock::now() +
      absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(1)));
  MutexLock lock(&mutex_);
  auto it = events_.upper_bound(*cursor);
  while (it == events_.end()) {
    if (finished_locked()) return false;
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return true;
    changed_.wait_for(&mutex_, left);
    it = events_.upper_bound(*cursor);
  }
  int64_t bytes = 0;
  for (bool first = true; it != events_.end(); ++it, first = false) {
    bytes += static_cast<int64_t>(it->second->ByteSizeLong());
    if (!first && bytes > max_bytes) break;
    events->push_back(it->second);
    *cursor = it->first;
  }
  return true;
}

void Job::drop_outputs() {
  // Freed without the lock held.
  std::map<int64_t, std::shared_ptr<const v1::JobEvent>> events;
  MutexLock lock(&mutex_);
  outputs_dropped_ = true;
  std::swap(events, events_);
  droppable_.clear();
}

}  // namespace ferry
