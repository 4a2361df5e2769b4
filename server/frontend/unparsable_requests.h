#pragma once

#include <grpcpp/support/server_interceptor.h>

namespace ferry {

// Answers requests that Protobuf cannot parse. No handler runs for them, and
// gRPC says INTERNAL without a message; this makes it INVALID_ARGUMENT with
// UNPARSABLE_REQUEST, names the field where a text is no UTF-8, and writes the
// call's line into the log.
//
// Ownership: gRPC owns the factory, and an interceptor for each call.
// Threads: thread-safe.
class UnparsableRequests final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override;
};

}  // namespace ferry
