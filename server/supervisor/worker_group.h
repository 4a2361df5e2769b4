#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ferry/v1/pipeline.pb.h"
#include "ferry/worker/v1/worker_service.pb.h"
#include "platform/base/mutex.h"
#include "platform/os/process_spawner.h"
#include "platform/os/unique_fd.h"
#include "server/core/rank.h"
#include "server/supervisor/ask_flight_records.h"
#include "server/supervisor/log_drain.h"
#include "server/supervisor/rendezvous.h"
#include "server/supervisor/wave_coordinator.h"
#include "server/supervisor/worker_gate.h"
#include "server/supervisor/worker_link.h"
#include "server/supervisor/worker_process.h"
#include "server/supervisor/worker_settings.h"
#include "server/supervisor/worker_state.h"

namespace ferry {

// All ranks of one pipeline, in one generation: the unit of failure. The states
// are in worker_state.h. One lost rank is the group's loss.
//
//   group.load() → OK: publish ranks() → group.wait() → withdraw them, then
//   group.end(), always.
//
// Ownership: owns the processes; spawner and drain must outlive it. The
//   destructor kills what end() did not.
// Threads: request_stop() and connections() are thread-safe; all else belongs
//   to one thread.
// Errors: load() and wait() say why the group is of no use: UNAVAILABLE with
//   WORKER_LOST, or the error that a worker reported; CANCELLED after
//   request_stop().
class WorkerGroup {
 public:
  // REQUIRES: at least one rank is ferryd's own; there is a gate for the
  // others.
  WorkerGroup(const WorkerSettings& settings, int64_t generation,
              ProcessSpawner& spawner, LogDrain& drain);
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  // Waits until workers for all external ranks are there, starts the others,
  // and makes every rank load. Blocks until all are ready: kReady.
  // REQUIRES: the state is kStarting: called once.
  absl::Status load() EXCLUDES_LOCK(mutex_);
  // Whether load() failed with an error that a worker reported: the package or
  // the configuration is wrong, and another try would end the same.
  bool load_error_reported() const EXCLUDES_LOCK(mutex_);

  // Blocks until a rank is lost. REQUIRES: load() returned OK.
  absl::Status wait() EXCLUDES_LOCK(mutex_);

  // Ends it. After request_stop() the ranks get SIGTERM and stop_grace; a
  // failed group is killed. Blocks until every process is reaped.
  void end() EXCLUDES_LOCK(mutex_);

  // Makes load() and wait() return.
  void request_stop() EXCLUDES_LOCK(mutex_);

  // To its ranks, from when each has a worker.
  GroupConnections connections() const EXCLUDES_LOCK(mutex_);

  // What the lost rank wrote last; complete after end().
  std::vector<std::string> last_lines() EXCLUDES_LOCK(mutex_);
  int64_t generation() const { return generation_; }

  // REQUIRES of these: load() returned OK.
  const std::vector<std::shared_ptr<Rank>>& ranks() const;
  // What rank 0 said, with ferryd's fields: generation and ranks.
  v1::Pipeline description() const;
  // What each rank said of offloading when it had loaded.
  std::vector<v1::OffloadReport> offloads() const;
  // Ends what runs on the ranks with `error`, a worker_lost().
  void set_lost(const absl::Status& error);

 private:
  using LoadResult = absl::StatusOr<worker::v1::LoadPipelineResponse>;

  // With several ranks, makes the place where they meet.
  absl::Status start_processes() EXCLUDES_LOCK(mutex_);
  // The workers of external ranks; none where there are none.
  absl::StatusOr<WorkerGate::Connections> take_external() const;
  // Makes the place where ranks meet: on the loopback interface, or where the
  // external ones have reached this host. Returns the store's socket.
  absl::StatusOr<UniqueFd> make_rendezvous(
      const WorkerGate::Connections& external);
  void add_process(std::unique_ptr<WorkerLink> link, UniqueFd socket)
      EXCLUDES_LOCK(mutex_);
  // Before any of them loads: whoever is first may want a wave of all.
  void join_waves();
  void on_wave_wanted(int rank, int64_t last_wave) EXCLUDES_LOCK(mutex_);
  // Blocks until all ranks have loaded, or the group is of no use.
  void load_all() EXCLUDES_LOCK(mutex_);
  void on_loaded(size_t rank, LoadResult result) EXCLUDES_LOCK(mutex_);
  void on_lost(int rank, const std::string& why) EXCLUDES_LOCK(mutex_);
  // The first failure counts.
  void fail_locked(absl::Status failure) REQUIRES_LOCK(mutex_);
  // It will never be ready, or is not any more.
  bool useless_locked() const REQUIRES_LOCK(mutex_);
  bool all_loaded_locked() const REQUIRES_LOCK(mutex_);
  // Whether all ranks have the same kind of device. "auto" may give a rank the
  // CPU where it finds no GPU of its number, or one that does not work.
  absl::Status check_devices_locked() const REQUIRES_LOCK(mutex_);
  void set_state_locked(WorkerState state) REQUIRES_LOCK(mutex_);
  // CANCELLED after request_stop(), else the failure, else OK.
  absl::Status result_locked() const REQUIRES_LOCK(mutex_);

  // Constant after construction.
  const WorkerSettings settings_;
  const int64_t generation_;
  ProcessSpawner& spawner_;
  LogDrain& drain_;

  // Touched by the owner's thread.
  std::optional<Rendezvous> rendezvous_;
  std::vector<std::unique_ptr<WorkerProcess>> processes_;
  std::vector<std::shared_ptr<Rank>> ranks_;
  // Used by the threads of processes_, which do not change meanwhile.
  WaveCoordinator waves_;

  mutable Mutex mutex_;
  // Signalled at every change of what follows.
  CondVar changed_;
  WorkerState state_ GUARDED_BY(mutex_) = WorkerState::kStarting;
  bool stop_requested_ GUARDED_BY(mutex_) = false;
  absl::Status failure_ GUARDED_BY(mutex_);
  bool load_error_reported_ GUARDED_BY(mutex_) = false;
  int lost_rank_ GUARDED_BY(mutex_) = -1;
  GroupConnections connections_ GUARDED_BY(mutex_);
  // By rank; empty until it has loaded.
  std::vector<std::optional<worker::v1::LoadPipelineResponse>> loaded_
      GUARDED_BY(mutex_);
};

}  // namespace ferry
