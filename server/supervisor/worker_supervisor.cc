#include "server/supervisor/worker_supervisor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "platform/base/check.h"
#include "platform/base/logging.h"
#include "server/supervisor/ask_flight_records.h"

namespace ferry {
namespace {

// Of a rank that lives: it answers apart from what it does.
constexpr absl::Duration kAnswerTimeout = absl::Seconds(1);

void log_worker_line(const LogDrain::Source& source, absl::string_view line) {
  log_info(line, {{"source", "worker"},
                  {"pipeline", source.pipeline},
                  {"rank", source.rank}});
}

}  // namespace

WorkerSupervisor::Options WorkerSupervisor::options_from(
    const DaemonConfig& config, const std::string& default_worker,
    int default_threads, WorkerGate* gate) {
  Options options;
  for (const PipelineSettings& pipeline : config.pipelines) {
    PipelineKeeper::Options keeper;
    WorkerSettings& worker = keeper.worker;
    worker.command = {config.worker_path.empty() ? default_worker
                                                 : config.worker_path};
    worker.pipeline = absl::StrCat("pipelines/", pipeline.name);
    worker.package_dir = pipeline.path;
    worker.offload = pipeline.offload;
    worker.parallel = pipeline.parallel;
    worker.ranks = pipeline.ranks;
    worker.external_ranks = pipeline.external_ranks;
    worker.gate = gate;
    worker.intra_op_threads =
        config.intra_op_threads > 0 ? config.intra_op_threads : default_threads;
    worker.platform = config.platform;
    worker.load_timeout = config.pipeline_load_timeout;
    worker.heartbeat_interval = config.heartbeat_interval;
    worker.heartbeat_timeout = config.heartbeat_timeout;
    worker.step_timeout = config.step_timeout;
    worker.cancel_grace = config.cancel_grace;
    keeper.restart.backoff_min = config.worker_restart_backoff_min;
    keeper.restart.backoff_max = config.worker_restart_backoff_max;
    keeper.restart.limit = config.worker_restart_limit;
    keeper.restart.window = config.worker_restart_window;
    options.pipelines.push_back(std::move(keeper));
  }
  return options;
}

WorkerSupervisor::WorkerSupervisor(Options options, Callbacks callbacks,
                                   PipelineDirectory& directory, RankPool& pool,
                                   const Clock& clock)
    : options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      directory_(directory),
      pool_(pool),
      clock_(clock),
      drain_(log_worker_line, clock) {}

WorkerSupervisor::~WorkerSupervisor() { stop(); }

void WorkerSupervisor::start() {
  FERRY_CHECK(keepers().empty());
  for (PipelineKeeper::Options keeper : options_.pipelines) {
    const std::string name = keeper.worker.pipeline;
    keeper.on_load_error = [this, name](const absl::Status& error) {
      if (callbacks_.on_load_error) callbacks_.on_load_error(name, error);
    };
    keeper.on_budget_spent = [this, name](const absl::Status& error) {
      if (callbacks_.on_budget_spent) callbacks_.on_budget_spent(name, error);
    };
    MutexLock lock(&mutex_);
    keepers_.push_back(std::make_unique<PipelineKeeper>(
        std::move(keeper), spawner_, drain_, directory_, pool_, clock_));
  }
}

void WorkerSupervisor::stop() {
  const std::vector<PipelineKeeper*> all = keepers();
  for (PipelineKeeper* const keeper : all) keeper->request_stop();
  for (PipelineKeeper* const keeper : all) keeper->stop();
}

v1::GetFlightRecordsResponse WorkerSupervisor::flight_records(
    const std::string& pipeline) const {
  for (const PipelineKeeper* const keeper : keepers()) {
    if (keeper->name() != pipeline) continue;
    return ask_flight_records(keeper->connections(), kAnswerTimeout);
  }
  return {};
}

std::vector<PipelineKeeper*> WorkerSupervisor::keepers() const {
  MutexLock lock(&mutex_);
  std::vector<PipelineKeeper*> all;
  for (const auto& keeper : keepers_) all.push_back(keeper.get());
  return all;
}

}  // namespace ferry
