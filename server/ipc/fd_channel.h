#pragma once

#include <memory>

#include "grpcpp/channel.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "platform/os/unique_fd.h"

namespace ferry {

// gRPC over one end of a socket pair. No path, no permission, no stale file;
// when the other side's process is gone, calls fail with UNAVAILABLE at once
// and for ever.
//
// Never ask such a channel for its connectivity state: it has none.
// Threads: free functions; channels and servers are thread-safe.

// Makes the client's end. From then on `socket` does not block.
// REQUIRES: socket.valid(), as of serve_over_fd().
std::shared_ptr<grpc::Channel> channel_over_fd(UniqueFd socket);

// Raises the limits of a server that will serve on a socket pair. The default,
// 4 MiB, is less than a request's input images.
void set_fd_server_limits(grpc::ServerBuilder& builder);

// Serves the client at the other end. From then on `socket` does not block.
void serve_over_fd(grpc::Server& server, UniqueFd socket);

}  // namespace ferry
