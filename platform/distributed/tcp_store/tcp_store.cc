#include "platform/distributed/tcp_store/tcp_store.h"

#include <c10/util/Exception.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "platform/base/status_macros.h"
#include "platform/distributed/deadline.h"
#include "platform/os/unique_fd.h"

namespace ferry {
namespace {

using Client = c10::intrusive_ptr<c10d::TCPStore>;

// What c10d's server takes; it drops who sends more.
constexpr size_t kMaxKeyBytes = size_t{8} << 10;
constexpr size_t kMaxValueBytes = size_t{8} << 20;
// c10d takes whole seconds to connect, and 0 for ever.
constexpr absl::Duration kMinConnectTimeout = absl::Seconds(1);
constexpr absl::Duration kMaxTimeout = absl::Hours(24);
// For one more connection to a server that has just answered: c10d tries again
// when it is refused, and would do so until the caller's deadline.
constexpr absl::Duration kReconnectTimeout = absl::Seconds(5);

std::string text_of(const std::exception& error) {
  const auto* const c10_error = dynamic_cast<const c10::Error*>(&error);
  return c10_error == nullptr ? error.what()
                              : c10_error->what_without_backtrace();
}

// Runs `call`, which throws what c10d throws.
template <typename Call>
absl::Status guard(absl::string_view what, const Call& call) {
  try {
    call();
    return absl::OkStatus();
  } catch (const c10::DistStoreError& error) {
    return absl::DeadlineExceededError(
        absl::StrCat("store: ", what, ": ", text_of(error)));
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("store: ", what, ": ", text_of(error)));
  }
}

std::chrono::milliseconds milliseconds_of(absl::Duration timeout) {
  const absl::Duration whole =
      absl::Ceil(std::clamp(timeout, absl::Milliseconds(1), kMaxTimeout),
                 absl::Milliseconds(1));
  return std::chrono::milliseconds(absl::ToInt64Milliseconds(whole));
}

absl::StatusOr<Client> make_client(const std::string& host, uint16_t port,
                                   absl::Duration timeout) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.waitWorkers = false;
  options.timeout = milliseconds_of(std::max(timeout, kMinConnectTimeout));
  Client client;
  RETURN_IF_ERROR(guard(absl::StrCat("cannot reach ", host, ":", port), [&] {
    client = c10::make_intrusive<c10d::TCPStore>(host, options);
  }));
  return client;
}

// A socket that is bound, since c10d would bind to every address of the host.
absl::StatusOr<UniqueFd> bind_to(const std::string& address, uint16_t port) {
  const std::string name = absl::StrCat(address, ":", port);
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.c_str(), absl::StrCat(port).c_str(),
                                  &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("store: \"", address,
                     "\" is no address in numbers: ", ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> info(
      found, &::freeaddrinfo);
  UniqueFd socket(
      ::socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, info->ai_protocol));
  const int on = 1;
  if (!socket.valid() || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR,
                                      &on, sizeof on) != 0) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("store: no socket for ", name));
  }
  if (::bind(socket.get(), info->ai_addr, info->ai_addrlen) == 0) return socket;
  if (errno == EADDRINUSE) {
    return absl::UnavailableError(
        absl::StrCat("store: the port of ", name, " is taken"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("store: cannot listen at ", name,
                   ", which must be an address of this host: ",
                   absl::ErrnoToStatus(errno, "").message()));
}

// Where a socket is bound.
struct BoundAddress {
  std::string host;
  uint16_t port = 0;
};

absl::StatusOr<BoundAddress> address_of(const UniqueFd& socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST] = "";
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address),
                    &size) != 0) {
    return absl::ErrnoToStatus(errno, "store: a socket without an address");
  }
  const int error =
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host,
                    sizeof host, nullptr, 0, NI_NUMERICHOST);
  if (error != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "store: a socket without an address: ", ::gai_strerror(error)));
  }
  const uint16_t port =
      ntohs(address.ss_family == AF_INET6
                ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                : reinterpret_cast<const sockaddr_in&>(address).sin_port);
  return BoundAddress{host, port};
}

}  // namespace

// --- The server

class TcpStoreServer::Impl {
 public:
  // c10d's server has a client of its own.
  Client store;
};

absl::StatusOr<std::unique_ptr<TcpStoreServer>> TcpStoreServer::start(
    const std::string& address, uint16_t port) {
  ASSIGN_OR_RETURN(UniqueFd socket, bind_to(address, port));
  return adopt(std::move(socket));
}

absl::StatusOr<std::unique_ptr<TcpStoreServer>> TcpStoreServer::adopt(
    UniqueFd socket) {
  ASSIGN_OR_RETURN(const BoundAddress address, address_of(socket));
  c10d::TCPStoreOptions options;
  options.port = address.port;
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = socket.release();
  auto impl = std::make_unique<Impl>();
  RETURN_IF_ERROR(guard(
      absl::StrCat("cannot serve at ", address.host, ":", address.port), [&] {
        impl->store =
            c10::make_intrusive<c10d::TCPStore>(address.host, options);
      }));
  return std::unique_ptr<TcpStoreServer>(new TcpStoreServer(std::move(impl)));
}

TcpStoreServer::TcpStoreServer(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
TcpStoreServer::~TcpStoreServer() = default;

uint16_t TcpStoreServer::port() const { return impl_->store->getPort(); }

// --- The client

class TcpStore::Impl {
 public:
  // c10d has one space of names for both.
  static std::string value_key(absl::string_view key) {
    return absl::StrCat("value/", key);
  }
  static std::string number_key(absl::string_view key) {
    return absl::StrCat("number/", key);
  }

  std::string host;
  uint16_t port = 0;
  // For what does not wait.
  Client client;
};

absl::StatusOr<std::unique_ptr<TcpStore>> TcpStore::connect(
    const std::string& host, uint16_t port, absl::Duration timeout) {
  auto impl = std::make_unique<Impl>();
  impl->host = host;
  impl->port = port;
  absl::StatusOr<Client> client = make_client(host, port, timeout);
  if (!client.ok()) {
    return absl::DeadlineExceededError(client.status().message());
  }
  impl->client = *std::move(client);
  return std::unique_ptr<TcpStore>(new TcpStore(std::move(impl)));
}

TcpStore::TcpStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TcpStore::~TcpStore() = default;

absl::Status TcpStore::set(absl::string_view key, absl::string_view value) {
  const std::string full = Impl::value_key(key);
  if (full.size() > kMaxKeyBytes || value.size() > kMaxValueBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("store: a key of ", full.size(), " bytes with a value of ",
                     value.size(), "; at most ", kMaxKeyBytes, " and ",
                     kMaxValueBytes, " are possible"));
  }
  return guard(absl::StrCat("set \"", key, "\""), [&] {
    impl_->client->set(full, std::vector<uint8_t>(value.begin(), value.end()));
    // The server does not answer to a set.
    (void)impl_->client->check({full});
  });
}

absl::StatusOr<std::string> TcpStore::get(absl::string_view key,
                                          absl::Duration timeout) {
  const Deadline deadline(timeout);
  const std::string full = Impl::value_key(key);
  const std::string what = absl::StrCat("get \"", key, "\"");
  std::vector<uint8_t> value;
  bool is_there = false;
  RETURN_IF_ERROR(guard(what, [&] {
    is_there = impl_->client->check({full});
    if (is_there) value = impl_->client->get(full);
  }));
  if (!is_there) {
    if (deadline.has_passed()) {
      return absl::DeadlineExceededError(
          absl::StrCat("store: key \"", key, "\" has no value after ",
                       absl::FormatDuration(timeout)));
    }
    // A client serves one call at a time.
    ASSIGN_OR_RETURN(const Client waiter,
                     make_client(impl_->host, impl_->port,
                                 std::min(deadline.left(), kReconnectTimeout)));
    RETURN_IF_ERROR(guard(what, [&] {
      waiter->wait({full}, milliseconds_of(deadline.left()));
      value = waiter->get(full);
    }));
  }
  return std::string(value.begin(), value.end());
}

absl::StatusOr<int64_t> TcpStore::add(absl::string_view key, int64_t amount) {
  int64_t sum = 0;
  RETURN_IF_ERROR(guard(absl::StrCat("add to \"", key, "\""), [&] {
    sum = impl_->client->add(Impl::number_key(key), amount);
  }));
  return sum;
}

}  // namespace ferry
