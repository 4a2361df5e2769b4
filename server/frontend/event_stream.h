#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/sync_stream.h>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ferry/v1/generation_service.pb.h"
#include "ferry/v1/job_event.pb.h"
#include "platform/base/clock.h"
#include "server/core/job.h"
#include "server/frontend/write_watchdog.h"

namespace ferry {

// Why the call of `job` was cancelled at the monotonic time `now`: its deadline
// or its client. A client's own timer cancels its call a little before the
// deadline that the server knows: gRPC rounds a timeout up by at most 1 % on
// its way, and the way takes time.
absl::Status call_cancelled(const Job& job, absl::Duration now);

// Carries one job's events to the client of a Generate call.
//
// The job ends with the stream: when the client leaves, when its deadline has
// passed or when it does not read, the job is asked to end. The output bytes
// are dropped in any case.
//
// Ownership: what it is given must outlive it.
// Threads: confined to the call's thread.
class EventStream {
 public:
  EventStream(Job* job, grpc::ServerContext* context,
              grpc::ServerWriter<v1::GenerateResponse>* writer,
              WriteWatchdog* watchdog, const Clock& clock)
      : job_(job),
        context_(context),
        writer_(writer),
        watchdog_(watchdog),
        clock_(clock) {}

  // Blocks until the job has ended and every event was written. Returns the
  // job's own error, OK when it succeeded, or why the stream ended early.
  absl::Status run();

  // Writes the job as it is, as the only event.
  absl::Status write_snapshot();

 private:
  absl::Status forward_events();
  absl::Status write(const v1::JobEvent& event);

  Job* const job_;
  grpc::ServerContext* const context_;
  grpc::ServerWriter<v1::GenerateResponse>* const writer_;
  WriteWatchdog* const watchdog_;
  const Clock& clock_;
};

}  // namespace ferry
