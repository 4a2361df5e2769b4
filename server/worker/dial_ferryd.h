#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "platform/os/host_port.h"
#include "platform/os/unique_fd.h"
#include "server/worker/stop_request.h"

namespace ferry {

// How a worker that ferryd has not started joins its group.
struct DialOptions {
  // ferryd's --worker_address, as this host reaches it.
  HostPort rendezvous;
  // Address of this host to come from, in numbers; empty: the system's choice.
  // There the worker listens for other ranks, too.
  std::string bind_address;
  std::string token;
  // `pipelines/{pipeline}`.
  std::string pipeline;
  int rank = 0;
  int world_size = 0;
  int device_index = 0;
  // Until ferryd has let it in.
  absl::Duration join_timeout = absl::Minutes(10);
};

// Dials ferryd, again and again until it answers, and says who this is
// (server/ipc/worker_hello.h). Returns the connection on which ferryd speaks
// gRPC now. Blocks.
//
// Errors: PERMISSION_DENIED, ferryd says why this worker may not come in;
// DEADLINE_EXCEEDED, nobody has answered, and why; INVALID_ARGUMENT, what
// answers is no ferryd, or the host has no such bind_address; CANCELLED, it was
// asked to stop.
absl::StatusOr<UniqueFd> dial_ferryd(const DialOptions& options,
                                     StopRequest& stop);

}  // namespace ferry
