#include "platform/os/bound_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ferry {

absl::StatusOr<BoundSocket> bind_to_loopback() {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "cannot make a socket");
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd.get(), generic, length) != 0 ||
      getsockname(fd.get(), generic, &length) != 0) {
    return absl::ErrnoToStatus(errno, "cannot bind to 127.0.0.1");
  }
  return BoundSocket{std::move(fd),
                     absl::StrCat("127.0.0.1:", ntohs(address.sin_port))};
}

}  // namespace ferry
