#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/supervisor/worker_connection.h"
#include "server/supervisor/worker_link.h"

namespace ferry {

// A worker that others have started, on any host. All that ferryd has of it is
// its connection: the end of that is its end, and the worker ends by itself
// then (server/ipc/worker_exit.h). What it writes goes to who started it.
//
// Threads and errors: as WorkerLink says.
class ExternalWorker final : public WorkerLink {
 public:
  explicit ExternalWorker(std::shared_ptr<WorkerConnection> connection);
  ~ExternalWorker() override;

  std::optional<std::string> wait_for(absl::Duration timeout) override;
  void kill() override;
  void interrupt() override;
  void terminate(absl::Duration grace) override;
  std::vector<std::string> last_lines() override;

 private:
  const std::shared_ptr<WorkerConnection> connection_;
};

}  // namespace ferry
