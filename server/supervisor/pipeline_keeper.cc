#include "server/supervisor/pipeline_keeper.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "platform/base/check.h"
#include "platform/base/error_info.h"
#include "platform/base/logging.h"
#include "server/core/combine_offload_reports.h"
#include "server/core/errors.h"
#include "server/core/rpc_status.h"

namespace ferry {
namespace {

// Why it was lost, with the lines that may tell the cause.
std::string explain(const absl::Status& failure,
                    const std::vector<std::string>& lines) {
  if (lines.empty()) return std::string(failure.message());
  return absl::StrCat(failure.message(), "; it wrote last:\n",
                      absl::StrJoin(lines, "\n"));
}

}  // namespace

PipelineKeeper::PipelineKeeper(Options options, ProcessSpawner& spawner,
                               LogDrain& drain, PipelineDirectory& directory,
                               RankPool& pool, const Clock& clock)
    : options_(std::move(options)),
      name_(options_.worker.pipeline),
      spawner_(spawner),
      drain_(drain),
      directory_(directory),
      pool_(pool),
      clock_(clock) {
  FERRY_CHECK(directory_.find(name_).has_value());
  thread_ = std::thread([this] { run(); });
}

PipelineKeeper::~PipelineKeeper() { stop(); }

void PipelineKeeper::request_stop() {
  MutexLock lock(&mutex_);
  stop_requested_ = true;
  if (group_ != nullptr) group_->request_stop();
  stop_changed_.notify_all();
}

void PipelineKeeper::stop() {
  request_stop();
  if (thread_.joinable()) thread_.join();
}

GroupConnections PipelineKeeper::connections() const {
  MutexLock lock(&mutex_);
  return group_ == nullptr ? GroupConnections() : group_->connections();
}

void PipelineKeeper::run() {
  absl::BitGen random;
  RestartPolicy policy(options_.restart,
                       [&] { return absl::Uniform(random, 0.0, 1.0); });
  for (int64_t generation = 1;; ++generation) {
    publish_starting(generation);
    WorkerGroup group(options_.worker, generation, spawner_, drain_);
    bool reported = false;
    const absl::Status failure = run_group(group, reported);
    if (absl::IsCancelled(failure)) return;
    const std::string why = explain(failure, group.last_lines());
    log_error(reported ? "pipeline cannot be loaded" : "worker group was lost",
              {{"pipeline", name_}, {"generation", generation}, {"why", why}});
    if (reported) {
      publish_failed(failure);
      if (options_.on_load_error) options_.on_load_error(failure);
      return;
    }
    const std::optional<absl::Duration> delay =
        policy.next_delay(clock_.monotonic());
    if (!delay.has_value()) {
      const absl::Status spent = with_error_info(
          absl::UnavailableError(absl::StrCat(
              "the workers were lost too often (worker_restart_limit=",
              options_.restart.limit, " in worker_restart_window=",
              absl::FormatDuration(options_.restart.window), "): ", why)),
          {"WORKER_LOST", {{"pipeline", name_}}});
      publish_failed(spent);
      if (options_.on_budget_spent) options_.on_budget_spent(spent);
      return;
    }
    if (!wait(*delay)) {
      publish_withdrawn(v1::Pipeline::STATE_UNLOADED);
      return;
    }
  }
}

absl::Status PipelineKeeper::run_group(WorkerGroup& group, bool& reported) {
  if (!enter(&group)) {
    publish_withdrawn(v1::Pipeline::STATE_UNLOADED);
    return absl::CancelledError("ferryd ends");
  }
  absl::Status failure = group.load();
  if (failure.ok()) {
    serve(group);
    failure = group.wait();
    publish_withdrawn(absl::IsCancelled(failure)
                          ? v1::Pipeline::STATE_UNLOADED
                          : v1::Pipeline::STATE_RESTARTING);
    group.set_lost(absl::IsCancelled(failure)
                       ? worker_lost(name_, "the server ends")
                       : failure);
    for (const auto& rank : group.ranks()) pool_.remove_rank(name_, rank);
  } else if (absl::IsCancelled(failure)) {
    publish_withdrawn(v1::Pipeline::STATE_UNLOADED);
  }
  reported = group.load_error_reported();
  group.end();
  enter(nullptr);
  return failure;
}

void PipelineKeeper::serve(WorkerGroup& group) {
  for (const auto& rank : group.ranks()) pool_.add_rank(name_, rank);
  const std::vector<v1::OffloadReport> offloads = group.offloads();
  directory_.set_offloads(name_, offloads);
  directory_.update(name_, [&](v1::Pipeline& pipeline) {
    pipeline = group.description();
    *pipeline.mutable_offload() = combine_offload_reports(offloads);
    pipeline.set_state(v1::Pipeline::STATE_READY);
  });
  log_info("pipeline is ready",
           {{"pipeline", name_}, {"generation", group.generation()}});
}

bool PipelineKeeper::enter(WorkerGroup* group) {
  MutexLock lock(&mutex_);
  group_ = stop_requested_ ? nullptr : group;
  return !stop_requested_;
}

bool PipelineKeeper::wait(absl::Duration delay) {
  const absl::Duration deadline = clock_.monotonic() + delay;
  MutexLock lock(&mutex_);
  while (!stop_requested_) {
    const absl::Duration left = deadline - clock_.monotonic();
    if (left <= absl::ZeroDuration()) return true;
    stop_changed_.wait_for(&mutex_, absl::ToChronoNanoseconds(left));
  }
  return false;
}

void PipelineKeeper::publish_starting(int64_t generation) {
  directory_.update(name_, [&](v1::Pipeline& pipeline) {
    pipeline.set_state(generation == 1 ? v1::Pipeline::STATE_LOADING
                                       : v1::Pipeline::STATE_RESTARTING);
    pipeline.set_generation(generation);
    pipeline.clear_ranks();
  });
}

void PipelineKeeper::publish_failed(const absl::Status& error) {
  directory_.update(name_, [&](v1::Pipeline& pipeline) {
    pipeline.set_state(v1::Pipeline::STATE_FAILED);
    *pipeline.mutable_error() = to_rpc_status(error);
    pipeline.clear_ranks();
  });
  pool_.fail_queued(name_, pipeline_failed(name_, error.message()));
}

void PipelineKeeper::publish_withdrawn(v1::Pipeline::State state) {
  directory_.update(name_, [&](v1::Pipeline& pipeline) {
    pipeline.set_state(state);
    pipeline.clear_ranks();
  });
}

}  // namespace ferry
