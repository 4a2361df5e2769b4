#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/distributed/store.h"
#include "platform/os/unique_fd.h"

namespace ferry {

// Keeps the values of a TcpStore, in this process, for every rank that
// connects: c10d's TCPStore. It does not ask who connects; the prefix of a
// group, which nobody can guess, keeps groups apart.
//
// Ownership: owns its thread and its port. Clients of it fail once it is gone.
// Threads: thread-safe.
class TcpStoreServer {
 public:
  // Listens at an address of this host, IPv4 or IPv6, or a name of it; port 0
  // takes any that is free. Errors: INVALID_ARGUMENT, the address is none of
  // this host's; UNAVAILABLE, the port is taken.
  static absl::StatusOr<std::unique_ptr<TcpStoreServer>> start(
      const std::string& address, uint16_t port);
  // Listens on a socket that is bound already, to an address in numbers.
  static absl::StatusOr<std::unique_ptr<TcpStoreServer>> adopt(UniqueFd socket);
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  uint16_t port() const;

 private:
  class Impl;

  explicit TcpStoreServer(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

// The store of ranks on several hosts: a client of c10d's TCPStore.
//
// Errors: as Store says. A server whose process is stopped, and not gone, makes
// calls wait until it goes on.
// Threads: thread-safe; a get() that waits keeps nobody else waiting.
class TcpStore final : public Store {
 public:
  // DEADLINE_EXCEEDED: nobody serves there in time.
  static absl::StatusOr<std::unique_ptr<TcpStore>> connect(
      const std::string& host, uint16_t port, absl::Duration timeout);
  ~TcpStore() override;

  absl::Status set(absl::string_view key, absl::string_view value) override;
  absl::StatusOr<std::string> get(absl::string_view key,
                                  absl::Duration timeout) override;
  absl::StatusOr<int64_t> add(absl::string_view key, int64_t amount) override;

 private:
  class Impl;

  explicit TcpStore(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace ferry
