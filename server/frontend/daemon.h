#pragma once

#include <functional>
#include <memory>
#include <string>

#include "platform/base/clock.h"
#include "platform/base/mutex.h"
#include "server/core/daemon_config.h"
#include "server/core/generation_manager.h"
#include "server/core/pipeline_directory.h"
#include "server/frontend/end_requests.h"
#include "server/frontend/exit_codes.h"
#include "server/frontend/frontend_server.h"
#include "server/frontend/health_board.h"
#include "server/frontend/health_reporter.h"
#include "server/frontend/pipeline_service.h"

namespace ferry {

// The life of ferryd:
//
//   kStarting ──listens, workers start──► kServing ──EndRequests──► kDraining
//       └──a port is taken──► kStopped ◄──nothing runs, or time is up──┘
//
// Draining: health turns red; requests are still taken for lame_duck when a
// signal asked for the end; then queued jobs end with SERVER_DRAINING and
// running ones may finish within drain_timeout. What runs then, or when a
// second signal comes, is cancelled. From there the process has
// hard_exit_after.
//
// Threads: run() belongs to one thread; state() is thread-safe.
class Daemon {
 public:
  enum class State {
    // No port is open.
    kStarting,
    // Requests are taken; pipelines may still load.
    kServing,
    // Health is red; nothing new is taken once lame_duck has passed.
    kDraining,
    // No port is open and no worker runs.
    kStopped,
  };

  // All must outlive the daemon.
  struct Parts {
    const DaemonConfig* config;
    const PipelineDirectory* directory;
    GenerationManager* manager;
    HealthBoard* board;
    HealthReporter* reporter;
    EndRequests* end;
    const Clock* clock;
    // Where external workers connect; empty: nowhere.
    std::string worker_address = {};
    // What their ranks did together.
    FlightRecordsOf flight_records = {};
    // Starts the worker groups; returns at once.
    std::function<void()> start_workers;
    // Ends them; blocks until no worker is left.
    std::function<void()> stop_workers;
    // Begins the time within which the process ends, come what may.
    std::function<void()> arm_hard_exit;
  };

  explicit Daemon(Parts parts) : parts_(std::move(parts)) {}
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Serves until an end is requested. Blocks for the whole life; once in an
  // object. Returns how the process shall end.
  ExitCode run() EXCLUDES_LOCK(mutex_);

  State state() const EXCLUDES_LOCK(mutex_);

 private:
  void set_state(State state) EXCLUDES_LOCK(mutex_);
  absl::Status start();
  ExitCode drain();
  // Blocks until nothing runs and every stream has ended. False: the time is
  // up, or the end is urgent.
  bool wait_for_work();

  const Parts parts_;
  std::unique_ptr<FrontendServer> server_;
  mutable Mutex mutex_;
  State state_ GUARDED_BY(mutex_) = State::kStarting;
};

}  // namespace ferry
