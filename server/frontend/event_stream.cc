#include "server/frontend/event_stream.h"

#include <cstdint>

#include "absl/time/time.h"
#include "platform/base/status_macros.h"
#include "server/core/errors.h"
#include "server/core/rpc_status.h"

namespace ferry {
namespace {

// How long a client may go unnoticed that has left.
constexpr absl::Duration kSlice = absl::Milliseconds(100);
// Copied from the job at a time; one chunk of an output is as large.
constexpr int64_t kBatchBytes = 1 << 20;
// How long a cancel may take from a client to this server.
constexpr absl::Duration kTransit = absl::Milliseconds(20);

}  // namespace

absl::Status call_cancelled(const Job& job, absl::Duration now) {
  if (job.deadline() == absl::InfiniteDuration()) return client_cancelled();
  const absl::Duration rounding = (job.deadline() - job.created()) / 100;
  const bool is_due = now >= job.deadline() - rounding - kTransit;
  return is_due ? deadline_exceeded() : client_cancelled();
}

absl::Status EventStream::run() {
  const absl::Status status = forward_events();
  if (!status.ok()) job_->request_cancel(status);
  job_->drop_outputs();
  RETURN_IF_ERROR(status);
  return from_rpc_status(job_->snapshot().error());
}

absl::Status EventStream::write_snapshot() {
  v1::JobEvent event;
  event.set_sequence(1);
  *event.mutable_job() = job_->snapshot();
  return write(event);
}

absl::Status EventStream::forward_events() {
  int64_t cursor = 0;
  Job::Events events;
  for (bool more = true; more;) {
    events.clear();
    more = job_->read_events(&cursor, kSlice, &events, kBatchBytes);
    for (const auto& event : events) RETURN_IF_ERROR(write(*event));
    if (more && context_->IsCancelled()) {
      return call_cancelled(*job_, clock_.monotonic());
    }
  }
  return absl::OkStatus();
}

absl::Status EventStream::write(const v1::JobEvent& event) {
  // The response borrows the event, whose bytes are copied once, by gRPC, and
  // not changed.
  v1::GenerateResponse response;
  response.unsafe_arena_set_allocated_event(const_cast<v1::JobEvent*>(&event));
  const WriteWatchdog::Guard guard(watchdog_, context_);
  const bool written = writer_->Write(response);
  response.unsafe_arena_release_event();
  if (written) return absl::OkStatus();
  if (guard.expired()) return slow_reader(watchdog_->timeout());
  return call_cancelled(*job_, clock_.monotonic());
}

}  // namespace ferry
