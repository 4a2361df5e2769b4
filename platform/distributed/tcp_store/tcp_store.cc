#include "platform/distributed/tcp_store/tcp_store.h"

#include <c10/util/Exception.h>

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
#include "platform/os/host_port.h"
#include "platform/os/tcp_socket.h"
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

}  // namespace

// --- The server

class TcpStoreServer::Impl {
 public:
  // c10d's server has a client of its own.
  Client store;
};

absl::StatusOr<std::unique_ptr<TcpStoreServer>> TcpStoreServer::start(
    const std::string& address, uint16_t port) {
  // Bound, since c10d would bind to every address of the host.
  absl::StatusOr<UniqueFd> socket = bind_tcp({address, port});
  if (socket.ok()) return adopt(*std::move(socket));
  return absl::Status(socket.status().code(),
                      absl::StrCat("store: ", socket.status().message()));
}

absl::StatusOr<std::unique_ptr<TcpStoreServer>> TcpStoreServer::adopt(
    UniqueFd socket) {
  ASSIGN_OR_RETURN(const HostPort address, local_address(socket));
  c10d::TCPStoreOptions options;
  options.port = address.port;
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = socket.release();
  auto impl = std::make_unique<Impl>();
  RETURN_IF_ERROR(
      guard(absl::StrCat("cannot serve at ", address.to_string()), [&] {
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
