#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "platform/os/unique_fd.h"
#include "server/ipc/worker_hello.h"

namespace ferry {

// The connection of a worker that has come in by itself and was let in. While
// gRPC uses it, this sees and makes its end.
//
// Threads: thread-safe but for take_socket(). Errors: nothing fails.
class WorkerConnection {
 public:
  // Errors: no descriptor is left; the connection is gone already.
  static absl::StatusOr<WorkerConnection> create(UniqueFd socket,
                                                 WorkerHello hello);

  // Who it is, without its token.
  const WorkerHello& hello() const { return hello_; }
  // Where it comes from, HOST:PORT.
  const std::string& peer() const { return peer_; }
  // The address of this host, in numbers, that it has reached.
  const std::string& local_host() const { return local_host_; }

  // The socket, for gRPC. REQUIRES: called once.
  UniqueFd take_socket();

  // Blocks until the connection has ended, or `timeout` has passed.
  bool wait_for_end(absl::Duration timeout) const;
  bool has_ended() const { return wait_for_end(absl::ZeroDuration()); }
  // Ends it, for both. Returns at once; any number of times.
  void close() const;

 private:
  WorkerConnection(UniqueFd socket, UniqueFd control, WorkerHello hello,
                   std::string peer, std::string local_host);

  UniqueFd socket_;
  // The same socket.
  UniqueFd control_;
  WorkerHello hello_;
  std::string peer_;
  std::string local_host_;
};

}  // namespace ferry
