#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ferry/v1/pipeline_service.pb.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"
#include "platform/os/process_spawner.h"
#include "server/core/daemon_config.h"
#include "server/core/pipeline_directory.h"
#include "server/supervisor/log_drain.h"
#include "server/supervisor/pipeline_keeper.h"
#include "server/supervisor/rank_pool.h"
#include "server/supervisor/worker_gate.h"

namespace ferry {

// Keeps the worker groups of all configured pipelines in their wanted state.
//
//   construct → start() → … → stop()
//
// Ownership: directory, pool and clock must outlive it. The destructor stops.
// Threads: start() and stop() belong to one thread, flight_records() is
//   thread-safe. The callbacks run on the supervisor's threads, should return
//   soon (they wake main), and must not call stop().
// Errors: each pipeline's end in its entry of the directory; nothing here
// fails.
class WorkerSupervisor {
 public:
  struct Options {
    std::vector<PipelineKeeper::Options> pipelines;
  };
  struct Callbacks {
    // A worker reported that the pipeline cannot be loaded; it is FAILED.
    // With exit_on_load_error ferryd ends with code 2.
    std::function<void(const std::string& pipeline, const absl::Status& error)>
        on_load_error;
    // The workers of the pipeline died too often; it is FAILED, and ferryd
    // ends with code 4.
    std::function<void(const std::string& pipeline, const absl::Status& error)>
        on_budget_spent;
  };

  // What `config` says. `default_worker` is the worker's path when it says
  // none; `default_threads` the same for intra_op_threads. `gate` is null where
  // there are no external ranks, and else outlives the supervisor.
  static Options options_from(const DaemonConfig& config,
                              const std::string& default_worker,
                              int default_threads, WorkerGate* gate);

  WorkerSupervisor(Options options, Callbacks callbacks,
                   PipelineDirectory& directory, RankPool& pool,
                   const Clock& clock);
  ~WorkerSupervisor();
  WorkerSupervisor(const WorkerSupervisor&) = delete;
  WorkerSupervisor& operator=(const WorkerSupervisor&) = delete;

  // Starts every pipeline's group. Returns at once. REQUIRES: called once;
  // the directory has the pipelines (which each PipelineKeeper checks).
  void start() EXCLUDES_LOCK(mutex_);
  // Ends all groups in parallel: generations that run end with WORKER_LOST,
  // processes get SIGTERM and, after stop_grace, SIGKILL. Blocks until all are
  // reaped.
  void stop() EXCLUDES_LOCK(mutex_);

  // What the ranks of a pipeline's group did together of late; empty, without a
  // generation, when there is no group now. A rank that does not answer costs a
  // second.
  v1::GetFlightRecordsResponse flight_records(const std::string& pipeline) const
      EXCLUDES_LOCK(mutex_);

 private:
  std::vector<PipelineKeeper*> keepers() const EXCLUDES_LOCK(mutex_);

  const Options options_;
  const Callbacks callbacks_;
  PipelineDirectory& directory_;
  RankPool& pool_;
  const Clock& clock_;
  // Both outlive the groups.
  ProcessSpawner spawner_;
  LogDrain drain_;
  mutable Mutex mutex_;
  // None is taken away.
  std::vector<std::unique_ptr<PipelineKeeper>> keepers_ GUARDED_BY(mutex_);
};

}  // namespace ferry
