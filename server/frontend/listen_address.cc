#include "server/frontend/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "platform/os/unique_fd.h"

namespace ferry {
namespace {

absl::Status cannot_listen(absl::string_view address, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address, ": ", why));
}

absl::Status try_unix(absl::string_view address) {
  absl::string_view path = address;
  absl::ConsumePrefix(&path, "unix:");
  // `unix:///path` is the absolute path again.
  absl::ConsumePrefix(&path, "//");
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof(name.sun_path)) {
    return cannot_listen(address,
                         absl::StrCat("the path is longer than ",
                                      sizeof(name.sun_path) - 1, " bytes"));
  }
  std::memcpy(name.sun_path, path.data(), path.size());
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return cannot_listen(address, strerror(errno));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&name),
              sizeof(name)) == 0) {
    return cannot_listen(address, "another server answers there");
  }
  return absl::OkStatus();
}

absl::Status try_tcp(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == address.npos) return cannot_listen(address, "it has no port");
  absl::string_view host = address.substr(0, colon);
  const std::string port(address.substr(colon + 1));
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");

  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(std::string(host).c_str(), port.c_str(), &hints, &found);
  if (error != 0) return cannot_listen(address, gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found,
                                                            freeaddrinfo);
  const UniqueFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return cannot_listen(address, strerror(errno));
  // As gRPC does: a port in TIME_WAIT is free.
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      listen(fd.get(), 1) != 0) {
    return cannot_listen(address, strerror(errno));
  }
  return absl::OkStatus();
}

}  // namespace

std::string with_bound_port(absl::string_view address, int port) {
  if (absl::StartsWith(address, "unix:")) return std::string(address);
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

absl::Status try_to_listen(absl::string_view address) {
  return absl::StartsWith(address, "unix:") ? try_unix(address)
                                            : try_tcp(address);
}

}  // namespace ferry
