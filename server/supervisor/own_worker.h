#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "platform/os/process_spawner.h"
#include "platform/os/subprocess.h"
#include "platform/os/unique_fd.h"
#include "server/supervisor/log_drain.h"
#include "server/supervisor/log_tail.h"
#include "server/supervisor/worker_link.h"
#include "server/supervisor/worker_settings.h"

namespace ferry {

// A worker that ferryd starts, as a child. It ends with ferryd, however that
// ends.
//
// Ownership: spawner and drain must outlive it. The destructor kills and reaps.
// Threads and errors: as WorkerLink says.
class OwnWorker final : public WorkerLink {
 public:
  struct Started {
    std::unique_ptr<WorkerLink> link;
    // To the worker, for gRPC.
    UniqueFd socket;
  };

  // What the worker inherits; −1: it does not.
  struct GroupFds {
    // The store's socket: rank 0's.
    int store = -1;
    // A file in memory, for weights that ranks share.
    int images = -1;
  };
  // Where the worker finds the store's socket.
  static constexpr int kStoreFd = 5;

  // Errors: the process cannot be started.
  static absl::StatusOr<Started> start(const WorkerSettings& settings, int rank,
                                       int64_t generation,
                                       ProcessSpawner& spawner, LogDrain& drain,
                                       GroupFds group);

  std::optional<std::string> wait_for(absl::Duration timeout) override;
  void kill() override;
  void interrupt() override;
  void terminate(absl::Duration grace) override;
  std::vector<std::string> last_lines() override;

 private:
  OwnWorker(Place place, std::unique_ptr<Subprocess> process,
            std::shared_ptr<LogTail> tail, UniqueFd lifeline);

  const std::unique_ptr<Subprocess> process_;
  const std::shared_ptr<LogTail> tail_;
  const UniqueFd lifeline_;
};

}  // namespace ferry
