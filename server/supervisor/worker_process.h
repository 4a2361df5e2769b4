#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "ferry/worker/v1/worker_service.grpc.pb.h"
#include "grpcpp/channel.h"
#include "platform/base/mutex.h"
#include "platform/os/unique_fd.h"
#include "server/ipc/grpc_rank.h"
#include "server/ipc/grpc_waves.h"
#include "server/supervisor/heartbeat_monitor.h"
#include "server/supervisor/rendezvous.h"
#include "server/supervisor/worker_link.h"
#include "server/supervisor/worker_settings.h"

namespace ferry {

// The worker of one rank: watches it, makes it load, ends it.
//
// A thread of its own sees the end of the worker at once and asks for
// heartbeats between. It says why the rank is lost, and then only stop() is
// left to be called.
//
// Ownership: owns the link to the worker. The destructor kills.
// Threads: thread-safe but for destruction; join_waves(), watch_waves() and
//   leave_waves() belong to one thread. `on_lost` runs on threads of this
//   object and must not wait for it; the first call counts.
// Errors: everything is a loss.
class WorkerProcess {
 public:
  struct Position {
    int rank = 0;
    int64_t generation = 1;
  };
  // `why` is one clause about the rank, such as "exited with code 3".
  using OnLost = std::function<void(const std::string& why)>;

  // `socket` is the one that the worker serves on.
  WorkerProcess(const WorkerSettings& settings, Position position,
                std::unique_ptr<WorkerLink> link, UniqueFd socket,
                OnLost on_lost);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Waves, of a rank of a group: join_waves(), then watch_waves(), then
  // start_wave(), which does not wait for the rank. `on_wanted` runs on a
  // thread of its own until leave_waves(). What the worker says is wrong with
  // them is a loss. REQUIRES: in this order.
  void join_waves();
  void watch_waves(std::function<void(int64_t last_wave)> on_wanted);
  void start_wave(int64_t wave);
  void leave_waves();

  // Makes the rank load the pipeline; with several ranks they meet at
  // `rendezvous`. Blocks until it has, it is lost, or load_timeout has passed.
  // An error that the worker itself reports carries an ErrorInfo; all others
  // mean that the rank is of no use.
  absl::StatusOr<worker::v1::LoadPipelineResponse> load(
      const std::optional<Rendezvous>& rendezvous);

  // Kills it. Returns at once; every call that waits for the rank fails soon.
  void kill();
  // Asks it to end. Returns at once.
  void interrupt();
  // Ends it: asks it, and kills it after `grace`. Blocks until nothing is left
  // of it here, and it is not watched any more. on_lost is not called for this
  // end.
  void stop(absl::Duration grace) EXCLUDES_LOCK(mutex_);

  const WorkerLink::Place& place() const { return link_->place(); }
  // The last lines it wrote: all of them once it has ended.
  std::vector<std::string> last_lines();
  // What the scheduler may ask of it.
  const std::shared_ptr<GrpcRank>& rank() const { return rank_; }

 private:
  void watch() EXCLUDES_LOCK(mutex_);
  // One heartbeat; returns why the rank is lost, or nothing.
  std::optional<std::string> check(HeartbeatMonitor& monitor);
  bool stopping() const EXCLUDES_LOCK(mutex_);

  // Constant after construction, and thread-safe.
  const WorkerSettings settings_;
  const Position position_;
  const std::unique_ptr<WorkerLink> link_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<worker::v1::WorkerService::Stub> stub_;
  const std::shared_ptr<GrpcRank> rank_;
  const OnLost on_lost_;
  std::unique_ptr<GrpcWaves> waves_;

  mutable Mutex mutex_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread watcher_;
};

}  // namespace ferry
