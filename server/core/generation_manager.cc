#include "server/core/generation_manager.h"

#include <algorithm>
#include <utility>

#include "platform/base/check.h"
#include "platform/base/error_info.h"
#include "platform/base/status_macros.h"
#include "server/core/errors.h"
#include "server/core/generation_work.h"
#include "server/core/pass_grouping.h"
#include "server/core/proto_time.h"
#include "server/core/rank_run.h"

namespace ferry {
namespace {

bool is_worker_lost(const absl::Status& status) {
  const std::optional<ErrorInfo> info = get_error_info(status);
  return info.has_value() && info->reason == "WORKER_LOST";
}

}  // namespace

GenerationManager::Options GenerationManager::options_from(
    const DaemonConfig& config) {
  Options options;
  options.max_queue_jobs = config.max_queue_jobs;
  options.max_queue_bytes = config.max_queue_bytes;
  options.run_timeout = config.run_timeout;
  options.max_finished_jobs = config.max_finished_jobs;
  options.caps.max_pixels = config.max_pixels;
  options.caps.max_request_pixels = config.max_request_pixels;
  options.caps.max_images = config.max_images;
  options.caps.max_num_inference_steps = config.max_num_inference_steps;
  options.caps.queue_timeout = config.queue_timeout;
  return options;
}

GenerationManager::GenerationManager(Options options,
                                     PipelineDirectory& directory,
                                     const Clock& clock)
    : options_(std::move(options)),
      directory_(directory),
      clock_(clock),
      registry_(options_.max_finished_jobs),
      timer_(clock, [this] { return expire(); }) {}

GenerationManager::~GenerationManager() {
  begin_drain();
  cancel_all(server_draining(options_.retry_delay));
  std::vector<std::unique_ptr<Worker>> workers;
  {
    MutexLock lock(&mutex_);
    for (auto& [name, state] : pipelines_) {
      for (auto& worker : state.workers) workers.push_back(std::move(worker));
      state.workers.clear();
    }
  }
  join(workers);
}

// --- Admission -------------------------------------------------------------

absl::StatusOr<std::shared_ptr<Job>> GenerationManager::submit(
    const v1::GenerateRequest& request, absl::Duration deadline) {
  {
    // First of all: pipelines are unloaded at the end of a drain, and a client
    // shall try another server then.
    MutexLock lock(&mutex_);
    if (draining_) return server_draining(options_.retry_delay);
  }
  const std::optional<v1::Pipeline> pipeline =
      directory_.find(request.spec().pipeline());
  if (!pipeline.has_value()) {
    return pipeline_not_found(request.spec().pipeline());
  }
  // Nothing is known yet of what it takes.
  if (!pipeline->has_limits()) {
    RETURN_IF_ERROR(check_state(*pipeline, false));
    return pipeline_loading(pipeline->name(), options_.retry_delay);
  }
  ASSIGN_OR_RETURN(
      ValidRequest valid,
      validate_request(request, *pipeline, options_.caps, options_.draw_seed));
  RETURN_IF_ERROR(check_state(*pipeline, request.validate_only()));

  Job::Options options;
  options.effective_spec = std::move(valid.spec);
  options.pipeline = pipeline->name();
  options.priority = valid.priority;
  options.work = work_of(options.effective_spec, *pipeline);
  options.deadline = deadline;
  options.labels = std::move(valid.labels);
  options.validate_only = request.validate_only();
  if (options.validate_only) {
    return std::make_shared<Job>(std::move(options), clock_);
  }
  options.name = JobRegistry::new_name();
  options.queue_deadline = clock_.monotonic() + valid.queue_timeout;
  auto job = std::make_shared<Job>(std::move(options), clock_);
  job->set_cancel_callback([this, raw = job.get()] { end_queued(*raw); });
  RETURN_IF_ERROR(admit(job));
  timer_.wake();
  return std::shared_ptr<Job>(job.get(),
                              [job](Job* /*same*/) { job->drop_outputs(); });
}

v1::Pipeline GenerationManager::known_pipeline(const std::string& name) const {
  std::optional<v1::Pipeline> pipeline = directory_.find(name);
  FERRY_CHECK(pipeline.has_value());
  return *std::move(pipeline);
}

absl::Status GenerationManager::check_state(const v1::Pipeline& pipeline,
                                            bool validate_only) const {
  switch (pipeline.state()) {
    case v1::Pipeline::STATE_READY:
      return absl::OkStatus();
    case v1::Pipeline::STATE_FAILED:
      return pipeline_failed(pipeline.name(), pipeline.error().message());
    case v1::Pipeline::STATE_UNLOADED:
      return pipeline_failed(pipeline.name(), "it is not loaded");
    default:
      if (validate_only) return absl::OkStatus();
      return pipeline_loading(pipeline.name(), options_.retry_delay);
  }
}

absl::Status GenerationManager::admit(const std::shared_ptr<Job>& job) {
  MutexLock lock(&mutex_);
  if (draining_) return server_draining(options_.retry_delay);
  // Again, under the lock: fail_queued() comes after the change of state.
  RETURN_IF_ERROR(check_state(known_pipeline(job->pipeline()), false));
  PipelineState& state = state_locked(job->pipeline());
  RETURN_IF_ERROR(check_deadline_locked(*job, state));
  const auto idle =
      std::count_if(state.workers.begin(), state.workers.end(),
                    [](const auto& worker) { return worker->idle; });
  switch (state.queue.push(job, static_cast<int>(idle))) {
    case JobQueue::Limit::kJobs:
      return queue_full(job->pipeline(), "max_queue_jobs",
                        options_.max_queue_jobs,
                        queue_retry_delay_locked(job->pipeline()));
    case JobQueue::Limit::kBytes:
      return queue_full(job->pipeline(), "max_queue_bytes",
                        options_.max_queue_bytes,
                        queue_retry_delay_locked(job->pipeline()));
    case JobQueue::Limit::kNone:
      break;
  }
  registry_.add(job);
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status GenerationManager::check_deadline_locked(
    const Job& job, const PipelineState& state) {
  const absl::Duration remaining = job.deadline() - clock_.monotonic();
  if (remaining <= absl::ZeroDuration()) return deadline_exceeded();
  const std::optional<absl::Duration> run =
      run_times_.least(job.pipeline(), job.work());
  if (!run.has_value()) return absl::OkStatus();
  // The soonest: every rank is free now, only what surely goes first does, and
  // each takes the least it can. Longer ones would free no rank earlier.
  std::vector<absl::Duration> free_in(
      std::max<size_t>(1, state.workers.size()));
  for (const auto& other :
       state.queue.jobs_before(job.priority(), max_overtaken_locked(state))) {
    *std::min_element(free_in.begin(), free_in.end()) +=
        run_times_.least(other->pipeline(), other->work())
            .value_or(absl::ZeroDuration());
  }
  const absl::Duration estimate =
      *std::min_element(free_in.begin(), free_in.end()) + *run;
  if (estimate <= remaining) return absl::OkStatus();
  return deadline_unreachable(estimate, remaining);
}

absl::Duration GenerationManager::queue_retry_delay_locked(
    const std::string& pipeline) {
  const auto ranks =
      std::max<int64_t>(1, state_locked(pipeline).workers.size());
  const absl::Duration delay =
      run_times_.mean(pipeline).value_or(options_.retry_delay) / ranks;
  return std::clamp(delay, absl::Seconds(1), absl::Minutes(1));
}

// --- Jobs ------------------------------------------------------------------

absl::StatusOr<std::shared_ptr<Job>> GenerationManager::find(
    const std::string& name) const {
  return registry_.find(name);
}

absl::StatusOr<v1::ListJobsResponse> GenerationManager::list(
    const v1::ListJobsRequest& request) const {
  return registry_.list(request);
}

v1::Limits GenerationManager::limits_of(const v1::Pipeline& pipeline) const {
  return effective_limits(pipeline.limits(), options_.caps);
}

absl::StatusOr<v1::Job> GenerationManager::cancel(const std::string& name) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Job> job, registry_.find(name));
  job->request_cancel(job_cancelled());
  return job->snapshot();
}

void GenerationManager::end_queued(Job& job) {
  MutexLock lock(&mutex_);
  // Not there: a rank has taken it, and its thread sees the request.
  if (state_locked(job.pipeline()).queue.remove(job)) {
    finish_locked(job, job.cancel_error());
  }
}

GenerationManager::PipelineState& GenerationManager::state_locked(
    const std::string& pipeline) {
  return pipelines_
      .try_emplace(pipeline, options_.max_queue_jobs, options_.max_queue_bytes)
      .first->second;
}

void GenerationManager::finish_locked(Job& job, const absl::Status& status) {
  if (job.finish(status)) registry_.mark_finished(job);
}

void GenerationManager::fail_queue_locked(PipelineState& state,
                                          const absl::Status& error) {
  for (const auto& job : state.queue.remove_all()) finish_locked(*job, error);
}

// --- Ranks -----------------------------------------------------------------

void GenerationManager::add_rank(const std::string& pipeline,
                                 std::shared_ptr<Rank> rank) {
  FERRY_CHECK(rank != nullptr);
  FERRY_CHECK(directory_.find(pipeline).has_value());
  auto owned = std::make_unique<Worker>();
  Worker& worker = *owned;
  worker.rank = std::move(rank);
  MutexLock lock(&mutex_);
  auto& workers = state_locked(pipeline).workers;
  worker.index = static_cast<int>(workers.size());
  workers.push_back(std::move(owned));
  worker.thread =
      std::thread([this, pipeline, &worker] { feed(pipeline, worker); });
}

void GenerationManager::remove_rank(const std::string& pipeline,
                                    const std::shared_ptr<Rank>& rank) {
  std::vector<std::unique_ptr<Worker>> removed;
  {
    MutexLock lock(&mutex_);
    auto& workers = state_locked(pipeline).workers;
    const auto it =
        std::find_if(workers.begin(), workers.end(),
                     [&](const auto& worker) { return worker->rank == rank; });
    if (it == workers.end()) return;
    removed.push_back(std::move(*it));
    workers.erase(it);
  }
  join(removed);
}

void GenerationManager::join(
    const std::vector<std::unique_ptr<Worker>>& workers) {
  {
    MutexLock lock(&mutex_);
    for (const auto& worker : workers) worker->stopping = true;
    changed_.notify_all();
  }
  for (const auto& worker : workers) worker->thread.join();
}

void GenerationManager::feed(const std::string& pipeline, Worker& worker) {
  while (const std::shared_ptr<Job> job = next_job(pipeline, worker)) {
    timer_.wake();
    run_job(job, worker);
  }
}

int GenerationManager::max_overtaken_locked(const PipelineState& state) const {
  const bool together = std::any_of(
      state.workers.begin(), state.workers.end(), [](const auto& worker) {
        return worker->rank->makes_passes_with_others();
      });
  return together
             ? kMaxOvertakenPerRank * static_cast<int>(state.workers.size())
             : 0;
}

std::shared_ptr<Job> GenerationManager::take_locked(PipelineState& state) {
  const bool some_run =
      std::any_of(state.workers.begin(), state.workers.end(),
                  [](const auto& worker) { return worker->job != nullptr; });
  return state.queue.pop(state.last_pass,
                         some_run ? max_overtaken_locked(state) : 0);
}

std::shared_ptr<Job> GenerationManager::next_job(const std::string& pipeline,
                                                 Worker& worker) {
  MutexLock lock(&mutex_);
  PipelineState& state = state_locked(pipeline);
  for (;;) {
    if (worker.stopping) return nullptr;
    std::shared_ptr<Job> job = worker.lost ? nullptr : take_locked(state);
    if (job == nullptr) {
      changed_.wait(&mutex_);
    } else if (job->start()) {
      begin_locked(state, worker, job);
      return job;
    } else {
      // Asked to end while it was still queued.
      finish_locked(*job, job->cancel_error());
    }
  }
}

void GenerationManager::begin_locked(PipelineState& state, Worker& worker,
                                     std::shared_ptr<Job> job) {
  FERRY_CHECK(worker.job == nullptr);
  RunningJob run{job, clock_.monotonic()};
  const double pass = job->work().pass;
  for (const auto& other : state.workers) {
    if (other->job == nullptr) continue;
    RunningJob& beside = running_[other->job.get()];
    beside.largest_beside = std::max(beside.largest_beside, pass);
    run.largest_beside = std::max(run.largest_beside, other->job->work().pass);
  }
  state.last_pass = pass;
  worker.idle = false;
  running_[job.get()] = std::move(run);
  worker.job = std::move(job);
}

void GenerationManager::run_job(const std::shared_ptr<Job>& job,
                                Worker& worker) {
  const auto result = run_on_rank(*job, *worker.rank);
  // Who asked for the end said what the job ends with.
  absl::Status status = job->cancel_error();
  if (status.ok()) status = result.status();
  if (result.ok()) {
    job->set_summary(result->timings(), result->prompt_truncated());
    if (result->has_offload()) {
      directory_.set_offload(job->pipeline(), worker.index, result->offload());
    }
  }

  // One step: a client that sees the end finds the rank free.
  MutexLock lock(&mutex_);
  if (status.ok()) {
    add_run_locked(running_[job.get()], worker, result->timings());
  }
  if (is_worker_lost(result.status())) {
    // The group is one unit of failure: its other ranks are gone as well.
    for (const auto& other : state_locked(job->pipeline()).workers) {
      other->lost = true;
      other->idle = false;
    }
    worker.lost = true;
  }
  running_.erase(job.get());
  worker.idle = !worker.lost;
  worker.job = nullptr;
  finish_locked(*job, status);
  changed_.notify_all();
}

void GenerationManager::add_run_locked(const RunningJob& run,
                                       const Worker& worker,
                                       const v1::Timings& timings) {
  const Job& job = *run.job;
  const bool slowed = worker.rank->makes_passes_with_others() &&
                      run.largest_beside > job.work().pass;
  run_times_.add(
      job.pipeline(), job.work(),
      {clock_.monotonic() - run.started,
       from_proto(timings.denoise()).value_or(absl::ZeroDuration()), slowed});
}

void GenerationManager::fail_queued(const std::string& pipeline,
                                    const absl::Status& error) {
  FERRY_CHECK(!check_state(known_pipeline(pipeline), false).ok());
  MutexLock lock(&mutex_);
  fail_queue_locked(state_locked(pipeline), error);
}

// --- Ending ----------------------------------------------------------------

void GenerationManager::begin_drain() {
  MutexLock lock(&mutex_);
  draining_ = true;
  for (auto& [name, state] : pipelines_) {
    fail_queue_locked(state, server_draining(options_.retry_delay));
  }
}

void GenerationManager::cancel_all(const absl::Status& error) {
  std::vector<std::shared_ptr<Job>> jobs;
  {
    MutexLock lock(&mutex_);
    for (const auto& [key, running] : running_) jobs.push_back(running.job);
  }
  for (const auto& job : jobs) job->request_cancel(error);
}

absl::Duration GenerationManager::expire() {
  const absl::Duration now = clock_.monotonic();
  absl::Duration next = absl::InfiniteDuration();
  std::vector<std::pair<std::shared_ptr<Job>, absl::Status>> overdue;
  {
    MutexLock lock(&mutex_);
    for (auto& [name, state] : pipelines_) {
      for (const auto& job : state.queue.jobs()) {
        const absl::Duration due =
            std::min(job->deadline(), job->queue_deadline());
        if (due > now) {
          next = std::min(next, due);
          continue;
        }
        state.queue.remove(*job);
        finish_locked(*job, job->deadline() <= now
                                ? deadline_exceeded()
                                : queue_timeout(now - job->created()));
      }
    }
    for (const auto& [key, running] : running_) {
      const absl::Duration run_end = running.started + options_.run_timeout;
      const absl::Duration due = std::min(running.job->deadline(), run_end);
      if (due > now) {
        next = std::min(next, due);
      } else {
        overdue.emplace_back(running.job,
                             running.job->deadline() <= now
                                 ? deadline_exceeded()
                                 : run_timeout(options_.run_timeout));
      }
    }
  }
  for (const auto& [job, error] : overdue) job->request_cancel(error);
  return next;
}

int GenerationManager::queued() const {
  MutexLock lock(&mutex_);
  int result = 0;
  for (const auto& [name, state] : pipelines_) result += state.queue.size();
  return result;
}

int GenerationManager::running() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(running_.size());
}

std::vector<GenerationManager::RankUse> GenerationManager::rank_uses(
    const std::string& pipeline) const {
  MutexLock lock(&mutex_);
  std::vector<RankUse> uses;
  const auto it = pipelines_.find(pipeline);
  if (it == pipelines_.end()) return uses;
  for (const auto& worker : it->second.workers) {
    RankUse& use = uses.emplace_back();
    if (worker->job == nullptr) continue;
    use.job = worker->job->name();
    use.pass_time = run_times_.pass_time(pipeline, worker->job->work());
  }
  return uses;
}

}  // namespace ferry
