#pragma once

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/frontend/call_log.h"
#include "server/frontend/health_board.h"
#include "server/frontend/stream_limiter.h"

namespace ferry {

// grpc.health.v1.Health, as its specification says: Check of an unknown service
// is NOT_FOUND, Watch says SERVICE_UNKNOWN and goes on. Watch streams end with
// UNAVAILABLE when the board is closed; more than the limiter allows are
// refused.
//
// Ownership: board, log and limiter must outlive it.
// Threads: thread-safe.
class HealthService final : public grpc::health::v1::Health::Service {
 public:
  HealthService(const HealthBoard& board, CallLog* calls,
                StreamLimiter* watchers)
      : board_(board), calls_(calls), watchers_(watchers) {}

  grpc::Status Check(grpc::ServerContext* context,
                     const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* response) override;
  grpc::Status Watch(grpc::ServerContext* context,
                     const grpc::health::v1::HealthCheckRequest* request,
                     grpc::ServerWriter<grpc::health::v1::HealthCheckResponse>*
                         writer) override;

 private:
  const HealthBoard& board_;
  CallLog* const calls_;
  StreamLimiter* const watchers_;
};

}  // namespace ferry
