#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "ferry/v1/pipeline.pb.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"
#include "platform/os/process_spawner.h"
#include "server/core/pipeline_directory.h"
#include "server/supervisor/ask_flight_records.h"
#include "server/supervisor/log_drain.h"
#include "server/supervisor/rank_pool.h"
#include "server/supervisor/restart_policy.h"
#include "server/supervisor/worker_group.h"
#include "server/supervisor/worker_settings.h"

namespace ferry {

// Keeps one pipeline served: one group after the other.
//
//   LOADING ──► READY ──lost──► RESTARTING ──► READY …
//      │                            │
//      ├─died: RESTARTING           │
//      └────────────────────────────┴──► FAILED  a reported load error, or the
//                                                restart budget is spent
//   any ──stop()──► UNLOADED
//
// Order of publication: ranks are in the pool before READY is seen in the
// directory, and READY is not seen any more before a rank's generation ends
// with WORKER_LOST, a rank leaves the pool, or a process is ended.
//
// Ownership: what it is given must outlive it.
// Threads: has one, which runs all of the above and the callbacks; the methods
//   are thread-safe. The callbacks must not call stop().
// Errors: end in the directory (Pipeline.error), the log and the callbacks.
class PipelineKeeper {
 public:
  struct Options {
    WorkerSettings worker;
    RestartPolicy::Options restart;
    // The pipeline is FAILED now: by an error that a worker reported, or
    // because its workers died too often.
    std::function<void(const absl::Status& error)> on_load_error;
    std::function<void(const absl::Status& error)> on_budget_spent;
  };

  // REQUIRES: the directory has the pipeline.
  PipelineKeeper(Options options, ProcessSpawner& spawner, LogDrain& drain,
                 PipelineDirectory& directory, RankPool& pool,
                 const Clock& clock);
  ~PipelineKeeper();
  PipelineKeeper(const PipelineKeeper&) = delete;
  PipelineKeeper& operator=(const PipelineKeeper&) = delete;

  // Makes it end in whatever phase it is. Returns at once.
  void request_stop() EXCLUDES_LOCK(mutex_);
  // Blocks until every process has ended, at most a little longer than
  // stop_grace.
  void stop() EXCLUDES_LOCK(mutex_);

  const std::string& name() const { return name_; }
  // To the ranks of the group that there is now, or none.
  GroupConnections connections() const EXCLUDES_LOCK(mutex_);

 private:
  void run() EXCLUDES_LOCK(mutex_);
  // Runs one generation from start to end. Returns how it was lost, CANCELLED
  // when it was asked to stop. Sets `reported` for a load error of a worker.
  absl::Status run_group(WorkerGroup& group, bool& reported);
  void serve(WorkerGroup& group);
  // Makes `group` the one that others reach. False: stop was requested.
  bool enter(WorkerGroup* group) EXCLUDES_LOCK(mutex_);
  // Blocks for `delay`. False: stop was requested.
  bool wait(absl::Duration delay) EXCLUDES_LOCK(mutex_);

  void publish_starting(int64_t generation);
  void publish_failed(const absl::Status& error);
  // Not READY any more.
  void publish_withdrawn(v1::Pipeline::State state);

  const Options options_;
  const std::string name_;
  ProcessSpawner& spawner_;
  LogDrain& drain_;
  PipelineDirectory& directory_;
  RankPool& pool_;
  const Clock& clock_;

  mutable Mutex mutex_;
  CondVar stop_changed_;
  bool stop_requested_ GUARDED_BY(mutex_) = false;
  WorkerGroup* group_ GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

}  // namespace ferry
