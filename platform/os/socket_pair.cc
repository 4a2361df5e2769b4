#include "platform/os/socket_pair.h"

#include <sys/socket.h>

#include <cerrno>

#include "absl/status/status.h"

namespace ferry {

absl::StatusOr<SocketPair> make_socket_pair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) !=
      0) {
    return absl::ErrnoToStatus(errno, "cannot make a socket pair");
  }
  return SocketPair{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

}  // namespace ferry
