#include "server/frontend/daemon.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "platform/base/logging.h"
#include "platform/base/status_macros.h"
#include "platform/os/atomic_file.h"
#include "server/core/errors.h"

namespace ferry {
namespace {

// For the last bytes of streams whose job was cancelled.
constexpr absl::Duration kCloseGrace = absl::Seconds(1);
// How soon it shows that the last stream has ended.
constexpr absl::Duration kSlice = absl::Milliseconds(20);
// What a client shall wait whose job the end took away.
constexpr absl::Duration kRetryDelay = absl::Seconds(5);

// One NAME=ADDRESS a line.
std::string address_lines(const FrontendServer& server,
                          const std::string& worker_address) {
  std::string lines = absl::StrCat("grpc=", server.grpc_address(), "\n");
  if (!server.health_address().empty()) {
    absl::StrAppend(&lines, "health=", server.health_address(), "\n");
  }
  if (!worker_address.empty()) {
    absl::StrAppend(&lines, "worker=", worker_address, "\n");
  }
  return lines;
}

}  // namespace

ExitCode Daemon::run() {
  if (const absl::Status status = start(); !status.ok()) {
    log_error("cannot start", {{"error", status.message()}});
    server_.reset();
    set_state(State::kStopped);
    return kCannotStart;
  }
  set_state(State::kServing);
  parts_.end->wait();
  set_state(State::kDraining);
  const ExitCode code = drain();
  log_info("ended", {{"exit_code", static_cast<int>(code)},
                     {"why", parts_.end->why()},
                     {"calls", server_->calls().finished()},
                     {"failed_calls", server_->calls().failed()}});
  server_.reset();
  set_state(State::kStopped);
  return code;
}

absl::Status Daemon::start() {
  ASSIGN_OR_RETURN(server_, FrontendServer::start(
                                *parts_.config,
                                {parts_.manager, parts_.directory, parts_.board,
                                 parts_.clock, parts_.flight_records}));
  parts_.reporter->set_listening();
  if (!parts_.config->address_file.empty()) {
    RETURN_IF_ERROR(
        write_file_atomically(parts_.config->address_file,
                              address_lines(*server_, parts_.worker_address)));
  }
  log_info("listening", {{"grpc_address", server_->grpc_address()},
                         {"health_address", server_->health_address()},
                         {"worker_address", parts_.worker_address}});
  parts_.start_workers();
  return absl::OkStatus();
}

ExitCode Daemon::drain() {
  // Red before the first request is refused.
  parts_.reporter->set_draining();
  const ExitCode wanted = parts_.end->code();
  log_info("draining", {{"why", parts_.end->why()},
                        {"queued", parts_.manager->queued()},
                        {"running", parts_.manager->running()}});
  // After a failure there is nobody to wait for.
  if (wanted == kDrained) {
    parts_.end->wait_until_urgent(parts_.config->lame_duck);
  }
  parts_.board->close();
  parts_.manager->begin_drain();
  const bool finished = wait_for_work();

  parts_.arm_hard_exit();
  if (!finished) {
    log_error("work is lost: the drain took too long or was cut short",
              {{"running", parts_.manager->running()}});
    parts_.manager->cancel_all(server_draining(kRetryDelay));
  }
  // A rank that does not heed the cancel ends with its process, and the job
  // with it: its stream can still tell the client.
  parts_.stop_workers();
  server_->shutdown(kCloseGrace);
  return wanted == kDrained && !finished ? kWorkLost : wanted;
}

bool Daemon::wait_for_work() {
  const absl::Duration deadline =
      parts_.clock->monotonic() + parts_.config->drain_timeout;
  while (!parts_.end->is_urgent()) {
    if (parts_.manager->running() == 0 && server_->generate_streams() == 0) {
      return true;
    }
    if (parts_.clock->monotonic() >= deadline) return false;
    parts_.end->wait_until_urgent(kSlice);
  }
  return false;
}

Daemon::State Daemon::state() const {
  MutexLock lock(&mutex_);
  return state_;
}

void Daemon::set_state(State state) {
  MutexLock lock(&mutex_);
  state_ = state;
}

}  // namespace ferry
