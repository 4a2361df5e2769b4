#include "server/supervisor/worker_connection.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "platform/base/check.h"
#include "platform/base/status_macros.h"
#include "platform/os/host_port.h"
#include "platform/os/tcp_socket.h"

namespace ferry {

absl::StatusOr<WorkerConnection> WorkerConnection::create(UniqueFd socket,
                                                          WorkerHello hello) {
  ASSIGN_OR_RETURN(const HostPort peer, peer_address(socket));
  ASSIGN_OR_RETURN(const HostPort local, local_address(socket));
  UniqueFd control(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!control.valid()) return absl::ErrnoToStatus(errno, "a connection");
  hello.token.clear();
  return WorkerConnection(std::move(socket), std::move(control),
                          std::move(hello), peer.to_string(), local.host);
}

WorkerConnection::WorkerConnection(UniqueFd socket, UniqueFd control,
                                   WorkerHello hello, std::string peer,
                                   std::string local_host)
    : socket_(std::move(socket)),
      control_(std::move(control)),
      hello_(std::move(hello)),
      peer_(std::move(peer)),
      local_host_(std::move(local_host)) {}

UniqueFd WorkerConnection::take_socket() {
  FERRY_CHECK(socket_.valid());
  return std::move(socket_);
}

bool WorkerConnection::wait_for_end(absl::Duration timeout) const {
  return wait_for_end_of(control_, timeout);
}

void WorkerConnection::close() const { shutdown(control_.get(), SHUT_RDWR); }

}  // namespace ferry
