#include "server/ipc/fd_channel.h"

#include <fcntl.h>

#include <utility>

#include "grpcpp/create_channel_posix.h"
#include "grpcpp/server_posix.h"
#include "grpcpp/support/channel_arguments.h"
#include "platform/base/check.h"

namespace ferry {
namespace {

// Above ferryd's own limit for a request (64 MiB by default) and whatever an
// operator makes of it; both ends are ours.
constexpr int kMaxReceiveBytes = 1 << 30;

// As gRPC wants it.
int release_nonblocking(UniqueFd socket) {
  FERRY_CHECK(socket.valid());
  fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  return socket.release();
}

}  // namespace

std::shared_ptr<grpc::Channel> channel_over_fd(UniqueFd socket) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  // A generation that a worker may have begun is not for gRPC to repeat.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomInsecureChannelFromFd(
      "worker", release_nonblocking(std::move(socket)), arguments);
}

void set_fd_server_limits(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxReceiveBytes);
}

void serve_over_fd(grpc::Server& server, UniqueFd socket) {
  grpc::AddInsecureChannelFromFd(&server,
                                 release_nonblocking(std::move(socket)));
}

}  // namespace ferry
