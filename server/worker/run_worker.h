#pragma once

#include "absl/status/status.h"
#include "server/worker/dial_ferryd.h"
#include "server/worker/loaded_pipeline.h"

namespace ferry {

// What a worker is given by the process that starts it.
struct WorkerOptions {
  // Socket to ferryd.
  int ipc_fd = -1;
  // Reading end of a pipe whose other end ferryd alone holds.
  int lifeline_fd = -1;
};

// Serves one rank until SIGTERM or SIGINT, or until ferryd is gone. Blocks.
// Ends the process when its device or its group failed for good, with
// kWorkerDeviceFailed or kWorkerGroupFailed.
// It is what main() does, before the process has another thread: a thread that
// is there already would take the signals, and they would end the process.
// Errors name the flag that is wrong; RESOURCE_EXHAUSTED: the system gives no
// further thread.
absl::Status run_worker(const WorkerOptions& options, PipelineLoader loader);

// The same for a worker that somebody else than ferryd has started: dials
// ferryd first. Ends the process with kWorkerConnectionEnded when the
// connection ends. Errors: those of dial_ferryd().
absl::Status run_external_worker(const DialOptions& options,
                                 PipelineLoader loader);

}  // namespace ferry
