#include "server/supervisor/external_worker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/ipc/worker_hello.h"

namespace ferry {
namespace {

WorkerLink::Place place_of(const WorkerHello& hello) {
  return {hello.pid, hello.host, hello.device_index, hello.listen_host};
}

}  // namespace

ExternalWorker::ExternalWorker(std::shared_ptr<WorkerConnection> connection)
    : WorkerLink(place_of(connection->hello())),
      connection_(std::move(connection)) {}

ExternalWorker::~ExternalWorker() { kill(); }

std::optional<std::string> ExternalWorker::wait_for(absl::Duration timeout) {
  if (!connection_->wait_for_end(timeout)) return std::nullopt;
  return absl::StrCat("has ended its connection from ", connection_->peer(),
                      ", or its host is gone");
}

void ExternalWorker::kill() { connection_->close(); }

void ExternalWorker::interrupt() { connection_->close(); }

void ExternalWorker::terminate(absl::Duration /*grace*/) {
  connection_->close();
}

std::vector<std::string> ExternalWorker::last_lines() { return {}; }

}  // namespace ferry
