#pragma once

#include <set>
#include <string>
#include <vector>

#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/frontend/call_log.h"
#include "server/frontend/stream_limiter.h"

namespace ferry {

// grpc.reflection.v1alpha.ServerReflection over every descriptor that is linked
// in. Unlike gRPC's own plug-in it serves only where it is registered, and
// bounds its streams, each of which holds a thread.
//
// Ownership: log and limiter must outlive it. Threads: thread-safe.
class ReflectionService final
    : public grpc::reflection::v1alpha::ServerReflection::Service {
 public:
  // `services`: full names that ListServices tells.
  ReflectionService(std::vector<std::string> services, CallLog* calls,
                    StreamLimiter* streams);

  grpc::Status ServerReflectionInfo(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<
          grpc::reflection::v1alpha::ServerReflectionResponse,
          grpc::reflection::v1alpha::ServerReflectionRequest>* stream) override;

 private:
  // `sent`: files that the stream's client has already.
  grpc::reflection::v1alpha::ServerReflectionResponse answer(
      const grpc::reflection::v1alpha::ServerReflectionRequest& request,
      std::set<std::string>* sent) const;

  const std::vector<std::string> services_;
  CallLog* const calls_;
  StreamLimiter* const streams_;
};

}  // namespace ferry
