#include "platform/os/tcp_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "platform/base/clock.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

constexpr int kType = SOCK_STREAM | SOCK_CLOEXEC;
constexpr int kBacklog = 64;
// A silent connection is tried after so many seconds, again after as many, and
// given up at the third time; one that must send something, about then.
constexpr int kProbeSeconds = 5;
constexpr int kProbes = 3;
constexpr int kSendTimeoutMs = 20000;

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;
using GetAddress = int (*)(int, sockaddr*, socklen_t*);

absl::StatusOr<AddressList> look_up(const std::string& host, uint16_t port,
                                    int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("\"", host, "\": ", ::gai_strerror(error)));
  }
  return AddressList(found, &::freeaddrinfo);
}

void set_option(const UniqueFd& socket, int level, int name, int value) {
  ::setsockopt(socket.get(), level, name, &value, sizeof value);
}

void set_up_connection(const UniqueFd& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kProbeSeconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kSendTimeoutMs);
}

absl::Status come_from(const UniqueFd& socket, const std::string& host) {
  const absl::StatusOr<AddressList> address =
      look_up(host, 0, AI_NUMERICHOST | AI_PASSIVE);
  if (address.ok() &&
      ::bind(socket.get(), (*address)->ai_addr, (*address)->ai_addrlen) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", host,
                   "\" is no address of this host that a connection there can "
                   "come from"));
}

// Waits until one of `events` has happened. False: not in time.
bool wait_for(const UniqueFd& socket, short events, absl::Duration timeout) {
  const Clock& clock = Clock::real();
  const absl::Duration deadline = clock.monotonic() + timeout;
  while (true) {
    const absl::Duration left = std::clamp(
        deadline - clock.monotonic(), absl::ZeroDuration(), absl::Hours(1));
    pollfd wait = {socket.get(), events, 0};
    // Rounded up, so that the last millisecond does not spin.
    const int ready = ::poll(&wait, 1,
                             static_cast<int>(absl::ToInt64Milliseconds(
                                 left + absl::Microseconds(999))));
    if (ready > 0) return true;
    if (clock.monotonic() >= deadline) return false;
  }
}

absl::StatusOr<UniqueFd> connect_to(const addrinfo& address,
                                    const std::string& from,
                                    absl::Duration timeout) {
  UniqueFd socket(::socket(address.ai_family, kType | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return absl::ErrnoToStatus(errno, "no socket");
  if (!from.empty()) RETURN_IF_ERROR(come_from(socket, from));
  int error = 0;
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    error = errno;
  }
  if (error == EINPROGRESS) {
    if (!wait_for(socket, POLLOUT, timeout)) {
      return absl::DeadlineExceededError(
          absl::StrCat("no answer within ", absl::FormatDuration(timeout)));
    }
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0) {
    return absl::UnavailableError(
        absl::ErrnoToStatus(error, "cannot connect").message());
  }
  set_up_connection(socket);
  return socket;
}

absl::StatusOr<HostPort> address_by(GetAddress get, const UniqueFd& socket) {
  sockaddr_storage address = {};
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  if (get(socket.get(), generic, &size) != 0) {
    return absl::ErrnoToStatus(errno, "a socket without an address");
  }
  char host[NI_MAXHOST] = "";
  const int error = ::getnameinfo(generic, size, host, sizeof host, nullptr, 0,
                                  NI_NUMERICHOST);
  if (error != 0) {
    return absl::InternalError(
        absl::StrCat("a socket without an address: ", ::gai_strerror(error)));
  }
  const uint16_t port =
      address.ss_family == AF_INET6
          ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
          : reinterpret_cast<const sockaddr_in&>(address).sin_port;
  return HostPort{host, ntohs(port)};
}

}  // namespace

absl::StatusOr<UniqueFd> bind_tcp(const HostPort& address) {
  const std::string what =
      absl::StrCat("cannot listen on ", address.to_string());
  const absl::StatusOr<AddressList> found =
      look_up(address.host, address.port, AI_PASSIVE);
  if (!found.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": ", found.status().message()));
  }
  const addrinfo& first = **found;
  UniqueFd socket(::socket(first.ai_family, kType, 0));
  if (!socket.valid()) return absl::ErrnoToStatus(errno, what);
  // A port in TIME_WAIT is free.
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(socket.get(), first.ai_addr, first.ai_addrlen) == 0) return socket;
  const int error = errno;
  const absl::Status status = absl::ErrnoToStatus(error, what);
  return error == EADDRINUSE ? absl::UnavailableError(status.message())
                             : absl::InvalidArgumentError(status.message());
}

absl::StatusOr<UniqueFd> listen_tcp(const HostPort& address) {
  ASSIGN_OR_RETURN(UniqueFd socket, bind_tcp(address));
  if (::listen(socket.get(), kBacklog) != 0 ||
      ::fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0) {
    const int error = errno;
    return absl::UnavailableError(
        absl::ErrnoToStatus(
            error, absl::StrCat("cannot listen on ", address.to_string()))
            .message());
  }
  return socket;
}

absl::StatusOr<UniqueFd> accept_tcp(const UniqueFd& listener) {
  UniqueFd socket(::accept4(listener.get(), nullptr, nullptr,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.valid()) {
    set_up_connection(socket);
    return socket;
  }
  const int error = errno;
  if (error == EMFILE || error == ENFILE || error == ENOBUFS ||
      error == ENOMEM) {
    return absl::ResourceExhaustedError(
        absl::ErrnoToStatus(error, "accept").message());
  }
  return absl::UnavailableError(absl::ErrnoToStatus(error, "accept").message());
}

absl::StatusOr<UniqueFd> connect_tcp(const HostPort& address,
                                     const std::string& from,
                                     absl::Duration timeout) {
  ASSIGN_OR_RETURN(const AddressList found,
                   look_up(address.host, address.port, 0));
  absl::Status last;
  for (const addrinfo* each = found.get(); each != nullptr;
       each = each->ai_next) {
    absl::StatusOr<UniqueFd> socket = connect_to(*each, from, timeout);
    if (socket.ok()) return socket;
    last = socket.status();
  }
  return last;
}

absl::StatusOr<HostPort> local_address(const UniqueFd& socket) {
  return address_by(&::getsockname, socket);
}

absl::StatusOr<HostPort> peer_address(const UniqueFd& socket) {
  return address_by(&::getpeername, socket);
}

void wait_for_bytes_of(const UniqueFd& connection, absl::Duration timeout) {
  (void)wait_for(connection, POLLIN, timeout);
}

bool wait_for_end_of(const UniqueFd& connection, absl::Duration timeout) {
  return wait_for(connection, POLLRDHUP, timeout);
}

}  // namespace ferry
