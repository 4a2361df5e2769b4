#pragma once

#include <memory>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "tests/support/daemon.h"
#include "tests/support/generate_call.h"

namespace ferry {

// Follows readiness: next() blocks until it changes, for a minute at most.
class ReadinessWatch {
 public:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  // The test fails unless the daemon is ready.
  explicit ReadinessWatch(Daemon& daemon);
  ~ReadinessWatch();
  ReadinessWatch(const ReadinessWatch&) = delete;
  ReadinessWatch& operator=(const ReadinessWatch&) = delete;

  // UNKNOWN when it does not change.
  Status next();

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<grpc::health::v1::HealthCheckResponse>>
      reader_;
};

// The call ended because its worker was lost, and says so as the API promises;
// `why` is part of the explanation.
void expect_worker_lost(GenerateCall& call, const std::string& why);

// A new request is told to come again: the pipeline is being loaded.
void expect_loading(Daemon& daemon);

// A request of one step succeeds at once.
void expect_serves(Daemon& daemon);

}  // namespace ferry
