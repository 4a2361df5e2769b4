#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ferry/v1/generation_service.pb.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"
#include "server/core/daemon_config.h"
#include "server/core/deadline_timer.h"
#include "server/core/job.h"
#include "server/core/job_queue.h"
#include "server/core/job_registry.h"
#include "server/core/pipeline_directory.h"
#include "server/core/rank.h"
#include "server/core/run_times.h"
#include "server/core/spec_validator.h"

namespace ferry {

// Takes generations in, keeps them in the bounded queue and runs them on the
// ranks that are ready: what the gRPC services and the supervisor talk to.
//
// A job waits in the queue of its pipeline and goes to the first rank that is
// free. Higher priorities go first, then the first to have arrived; but where
// ranks make each pass together, one that arrived later and is like what runs
// may be taken first, a bounded number of times (pass_grouping.h).
// A job is run once: nothing is retried. A time that runs out (queue
// timeout, client deadline, run timeout) is noticed by a timer of its own,
// whether or not anybody reads the job.
//
// Ownership: owns the queues, the registry, a thread for each rank and the
//   timer. Before it is destroyed no call of it or of a job's request_cancel
//   may be in progress, and every rank's run() must return soon.
// Threads: thread-safe. No callback is called with the lock held.
class GenerationManager {
 public:
  struct Options {
    // Of one pipeline, beyond what idle ranks take at once.
    int max_queue_jobs = 64;
    int64_t max_queue_bytes = int64_t{512} << 20;
    absl::Duration run_timeout = absl::InfiniteDuration();
    int max_finished_jobs = 256;
    RequestCaps caps;
    // What clients are told to wait while a pipeline loads or the server ends.
    absl::Duration retry_delay = absl::Seconds(5);
    std::function<int64_t()> draw_seed = draw_random_seed;
  };
  static Options options_from(const DaemonConfig& config);

  // `directory` and `clock` must outlive the manager.
  GenerationManager(Options options, PipelineDirectory& directory,
                    const Clock& clock);
  ~GenerationManager();
  GenerationManager(const GenerationManager&) = delete;
  GenerationManager& operator=(const GenerationManager&) = delete;

  // Validates everything at once, applies the admission rules (queue bounds,
  // draining, pipeline state, deadline) and queues the job.
  // `deadline` is monotonic (Clock::monotonic), infinite when the client set
  // none. With request.validate_only the job is returned unqueued, in
  // STATE_UNSPECIFIED, as an effective spec only.
  // The pointer that is returned is the stream's: when its last copy goes, the
  // job's outputs go too (Job::drop_outputs).
  absl::StatusOr<std::shared_ptr<Job>> submit(
      const v1::GenerateRequest& request, absl::Duration deadline)
      EXCLUDES_LOCK(mutex_);

  // NOT_FOUND with JOB_NOT_FOUND or JOB_EXPIRED.
  absl::StatusOr<std::shared_ptr<Job>> find(const std::string& name) const;
  // Newest first, without specs and outputs; pages end at page_size or 512 KiB.
  absl::StatusOr<v1::ListJobsResponse> list(
      const v1::ListJobsRequest& request) const;
  // The limits that submit() holds requests of `pipeline` against.
  v1::Limits limits_of(const v1::Pipeline& pipeline) const;
  // Idempotent. A queued job has ended when it returns, a running one ends
  // when its rank is free.
  absl::StatusOr<v1::Job> cancel(const std::string& name);

  // The supervisor adds the ranks of a group in their order once it is ready,
  // and removes them all when the group is lost or stops. remove_rank() blocks
  // until the rank runs nothing; the supervisor makes a run() that is in
  // progress return before it calls this. Queued jobs stay. Removing a rank
  // that is not there does nothing. REQUIRES: rank != nullptr; the directory
  // has the pipeline.
  void add_rank(const std::string& pipeline, std::shared_ptr<Rank> rank)
      EXCLUDES_LOCK(mutex_);
  void remove_rank(const std::string& pipeline,
                   const std::shared_ptr<Rank>& rank) EXCLUDES_LOCK(mutex_);
  // Ends all queued jobs of a pipeline that will not come back.
  // REQUIRES: the directory says so already, so that no new ones come.
  void fail_queued(const std::string& pipeline, const absl::Status& error)
      EXCLUDES_LOCK(mutex_);

  // Draining: from now on submit() gives UNAVAILABLE/SERVER_DRAINING, queued
  // jobs end with it, running ones go on.
  void begin_drain() EXCLUDES_LOCK(mutex_);
  // Ends every running job with `error`.
  void cancel_all(const absl::Status& error) EXCLUDES_LOCK(mutex_);

  // Ends what is over time, and returns the monotonic time at which the next
  // job will be. The timer calls it at that time; public for tests, whose
  // clock moves by hand.
  absl::Duration expire() EXCLUDES_LOCK(mutex_);

  int queued() const EXCLUDES_LOCK(mutex_);
  int running() const EXCLUDES_LOCK(mutex_);
  // What a rank runs.
  struct RankUse {
    // The job's name; empty when the rank is idle.
    std::string job;
    // Of one pass, when nothing slows it; unset while unknown.
    std::optional<absl::Duration> pass_time;
  };
  // In the order in which the ranks were added.
  std::vector<RankUse> rank_uses(const std::string& pipeline) const
      EXCLUDES_LOCK(mutex_);

 private:
  // A rank and the thread that feeds it.
  struct Worker {
    std::shared_ptr<Rank> rank;
    // Its place in the group.
    int index = 0;
    std::thread thread;
    // Takes a job as soon as there is one.
    bool idle = true;
    // What it runs; null: nothing.
    std::shared_ptr<Job> job;
    // Its group was lost: it takes no job and waits for remove_rank().
    bool lost = false;
    bool stopping = false;
  };
  struct PipelineState {
    PipelineState(int max_jobs, int64_t max_bytes)
        : queue(max_jobs, max_bytes) {}
    JobQueue queue;
    std::vector<std::unique_ptr<Worker>> workers;
    // GenerationWork::pass of the job that was started last.
    double last_pass = 1;
  };
  struct RunningJob {
    std::shared_ptr<Job> job;
    absl::Duration started;
    // Work of the largest pass that has run beside it, on another rank.
    double largest_beside = 0;
  };

  // REQUIRES: the directory has it.
  v1::Pipeline known_pipeline(const std::string& name) const;
  absl::Status check_state(const v1::Pipeline& pipeline,
                           bool validate_only) const;
  absl::Status admit(const std::shared_ptr<Job>& job) EXCLUDES_LOCK(mutex_);
  absl::Status check_deadline_locked(const Job& job, const PipelineState& state)
      REQUIRES_LOCK(mutex_);
  absl::Duration queue_retry_delay_locked(const std::string& pipeline)
      REQUIRES_LOCK(mutex_);

  PipelineState& state_locked(const std::string& pipeline)
      REQUIRES_LOCK(mutex_);
  // How often a job may be overtaken now; 0 where ranks pace themselves.
  int max_overtaken_locked(const PipelineState& state) const
      REQUIRES_LOCK(mutex_);
  // The job that a rank which is free takes now; null: nothing waits.
  std::shared_ptr<Job> take_locked(PipelineState& state) REQUIRES_LOCK(mutex_);
  // The worker runs the job from now on.
  void begin_locked(PipelineState& state, Worker& worker,
                    std::shared_ptr<Job> job) REQUIRES_LOCK(mutex_);
  // What a run that succeeded tells of the next ones.
  void add_run_locked(const RunningJob& run, const Worker& worker,
                      const v1::Timings& timings) REQUIRES_LOCK(mutex_);
  void finish_locked(Job& job, const absl::Status& status)
      REQUIRES_LOCK(mutex_);
  void fail_queue_locked(PipelineState& state, const absl::Status& error)
      REQUIRES_LOCK(mutex_);
  // A queued job was asked to end.
  void end_queued(Job& job) EXCLUDES_LOCK(mutex_);

  // The thread of a worker.
  void feed(const std::string& pipeline, Worker& worker) EXCLUDES_LOCK(mutex_);
  // Blocks until there is a job, and starts it. Null: the worker stops.
  std::shared_ptr<Job> next_job(const std::string& pipeline, Worker& worker)
      EXCLUDES_LOCK(mutex_);
  void run_job(const std::shared_ptr<Job>& job, Worker& worker)
      EXCLUDES_LOCK(mutex_);
  // Stops the workers and joins their threads.
  void join(const std::vector<std::unique_ptr<Worker>>& workers)
      EXCLUDES_LOCK(mutex_);

  const Options options_;
  PipelineDirectory& directory_;
  const Clock& clock_;
  JobRegistry registry_;

  // Taken before the locks of a job, the registry and the directory.
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, PipelineState> pipelines_ GUARDED_BY(mutex_);
  std::map<const Job*, RunningJob> running_ GUARDED_BY(mutex_);
  RunTimes run_times_ GUARDED_BY(mutex_);
  bool draining_ GUARDED_BY(mutex_) = false;

  // Last: its thread uses the others.
  DeadlineTimer timer_;
};

}  // namespace ferry
