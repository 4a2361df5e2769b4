#include "server/frontend/ferryd.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "platform/base/clock.h"
#include "platform/base/logging.h"
#include "platform/base/status_macros.h"
#include "platform/os/cpu_quota.h"
#include "server/core/generation_manager.h"
#include "server/core/pipeline_directory.h"
#include "server/frontend/daemon.h"
#include "server/frontend/hard_exit.h"
#include "server/frontend/health_board.h"
#include "server/frontend/health_reporter.h"
#include "server/frontend/worker_path.h"
#include "server/supervisor/generation_manager_pool.h"
#include "server/supervisor/worker_gate.h"
#include "server/supervisor/worker_supervisor.h"

namespace ferry {
namespace {

absl::StatusOr<WorkerSupervisor::Options> supervisor_options(
    const DaemonConfig& config, WorkerGate* gate) {
  ASSIGN_OR_RETURN(const std::string self, own_path());
  ASSIGN_OR_RETURN(const std::string worker,
                   find_worker(config.worker_path, self));
  int ranks = 0;
  for (const PipelineSettings& pipeline : config.pipelines) {
    ranks += pipeline.ranks - pipeline.external_ranks;
  }
  return WorkerSupervisor::options_from(config, worker,
                                        default_intra_op_threads(ranks), gate);
}

WorkerSupervisor::Callbacks supervisor_callbacks(const DaemonConfig& config,
                                                 EndRequests* end) {
  WorkerSupervisor::Callbacks callbacks;
  const bool exit_on_load_error = config.exit_on_load_error;
  callbacks.on_load_error = [end, exit_on_load_error](
                                const std::string& pipeline,
                                const absl::Status& error) {
    if (!exit_on_load_error) return;
    end->on_failure(
        kCannotStart,
        absl::StrCat(pipeline, " cannot be loaded: ", error.message()));
  };
  callbacks.on_budget_spent = [end](const std::string& pipeline,
                                    const absl::Status& error) {
    end->on_failure(kWorkersUnrecoverable,
                    absl::StrCat(pipeline, ": ", error.message()));
  };
  return callbacks;
}

void exit_now() {
  log_error("the end took too long");
  _exit(kWorkLost);
}

}  // namespace

ExitCode run_ferryd(const DaemonConfig& config, EndRequests* end) {
  const Clock& clock = Clock::real();
  const auto gate = WorkerGate::open_for(config, clock);
  if (!gate.ok()) {
    log_error("cannot start", {{"error", gate.status().message()}});
    return kCannotStart;
  }
  const auto options = supervisor_options(config, gate->get());
  if (!options.ok()) {
    log_error("cannot start", {{"error", options.status().message()}});
    return kBadConfiguration;
  }
  // First: it watches over the end of everything below.
  std::unique_ptr<HardExit> hard_exit;

  PipelineDirectory directory;
  std::vector<std::string> names;
  for (const PipelineSettings& pipeline : config.pipelines) {
    names.push_back(absl::StrCat("pipelines/", pipeline.name));
    directory.add(names.back());
  }
  HealthBoard board;
  HealthReporter reporter(names, &board);
  directory.add_listener([&reporter](const v1::Pipeline& pipeline) {
    reporter.on_pipeline(pipeline);
  });
  GenerationManager manager(GenerationManager::options_from(config), directory,
                            clock);
  GenerationManagerPool pool(manager);
  WorkerSupervisor supervisor(*options, supervisor_callbacks(config, end),
                              directory, pool, clock);

  Daemon::Parts parts;
  parts.config = &config;
  parts.directory = &directory;
  parts.manager = &manager;
  parts.board = &board;
  parts.reporter = &reporter;
  parts.end = end;
  parts.clock = &clock;
  if (*gate != nullptr) parts.worker_address = (*gate)->address();
  parts.flight_records = [&supervisor](const std::string& pipeline) {
    return supervisor.flight_records(pipeline);
  };
  parts.start_workers = [&supervisor] { supervisor.start(); };
  parts.stop_workers = [&supervisor] { supervisor.stop(); };
  parts.arm_hard_exit = [&] {
    hard_exit =
        std::make_unique<HardExit>(config.hard_exit_after, exit_now, clock);
  };
  Daemon daemon(std::move(parts));
  return daemon.run();
}

}  // namespace ferry
