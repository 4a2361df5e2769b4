#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"
#include "platform/os/unique_fd.h"
#include "server/core/daemon_config.h"
#include "server/ipc/worker_hello.h"
#include "server/supervisor/line_budget.h"
#include "server/supervisor/worker_connection.h"

namespace ferry {

// Lets in the workers of external ranks, which dial ferryd
// (server/ipc/worker_hello.h), and keeps each until its group takes it:
//
//   connected ──right hello──► waiting ──take()──► taken ──ends──► (free)
//       │                         └──────ends──────────────────────► (free)
//       └──wrong, silent or too long: refused
//
// A rank has room for one worker that waits, and none while the one that was
// taken is connected. Whoever connects gets one line and some seconds to say
// who it is; many that say nothing crowd each other out, and nobody else.
//
// Ownership: the clock must outlive it. The destructor closes the port and what
//   waits.
// Threads: has one of its own, which never waits for a connection; thread-safe.
// Errors: open() says why it cannot listen. What a peer does wrong goes to the
//   log, and to the peer.
class WorkerGate {
 public:
  struct Group {
    // `pipelines/{pipeline}`.
    std::string pipeline;
    int ranks = 1;
    // The last ones of them.
    int external_ranks = 0;
  };
  struct Options {
    // HOST:PORT or [IPV6]:PORT; port 0 takes a free one.
    std::string address;
    std::string token;
    std::vector<Group> groups;
    // From the connection to the end of the line.
    absl::Duration hello_timeout = absl::Seconds(10);
  };
  // By rank, from the first external one.
  using Connections = std::vector<std::shared_ptr<WorkerConnection>>;

  // What `config` says; null where it has no external ranks.
  static absl::StatusOr<std::unique_ptr<WorkerGate>> open_for(
      const DaemonConfig& config, const Clock& clock);
  static absl::StatusOr<std::unique_ptr<WorkerGate>> open(Options options,
                                                          const Clock& clock);
  ~WorkerGate();
  WorkerGate(const WorkerGate&) = delete;
  WorkerGate& operator=(const WorkerGate&) = delete;

  // Where it listens.
  const std::string& address() const { return address_; }

  // Blocks until a worker waits for each external rank of the pipeline, and
  // takes them all. DEADLINE_EXCEEDED names the ranks that are missing;
  // CANCELLED, after close(). REQUIRES: the pipeline has external ranks, as of
  // close().
  absl::StatusOr<Connections> take(const std::string& pipeline,
                                   absl::Duration timeout)
      EXCLUDES_LOCK(mutex_);
  // Nobody will take workers of this pipeline any more. Those who wait for it
  // are sent away.
  void close(const std::string& pipeline) EXCLUDES_LOCK(mutex_);

 private:
  struct Place {
    std::shared_ptr<WorkerConnection> waiting;
    std::weak_ptr<WorkerConnection> taken;
  };
  struct Room {
    int ranks = 1;
    int first_rank = 1;
    bool closed = false;
    // By rank, from first_rank.
    std::vector<Place> places;
  };
  // Has not said yet who it is.
  struct Stranger {
    UniqueFd socket;
    std::string peer;
    std::string line;
    absl::Duration deadline;
  };

  WorkerGate(Options options, UniqueFd listener, UniqueFd stop,
             std::string address, const Clock& clock);

  // On the gate's thread.
  void run();
  void wait_for_something(std::vector<short>* events);
  void accept_some();
  void listen_to_strangers(const std::vector<short>& events);
  // Reads what has come. False: it is no stranger any more, or was refused.
  bool listen_to(Stranger& stranger);
  void refuse(const Stranger& stranger, const absl::Status& why);
  absl::Status let_in(Stranger& stranger) EXCLUDES_LOCK(mutex_);

  // Ends the process unless the pipeline has external ranks.
  Room& room_locked(const std::string& pipeline) REQUIRES_LOCK(mutex_);
  // The place of a worker that may come in now.
  absl::StatusOr<Place*> find_place_locked(const WorkerHello& hello)
      REQUIRES_LOCK(mutex_);
  static std::vector<int> missing_ranks(Room& room);

  // Constant after construction.
  const Options options_;
  const UniqueFd listener_;
  const UniqueFd stop_;
  const std::string address_;
  const Clock& clock_;

  // Of the gate's thread.
  std::vector<Stranger> strangers_;
  LineBudget log_budget_;
  // While no descriptor is left, nobody is accepted before this.
  absl::Duration accept_after_ = absl::ZeroDuration();

  Mutex mutex_;
  // Signalled when somebody has come in, and at the end.
  CondVar changed_;
  std::map<std::string, Room> rooms_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace ferry
