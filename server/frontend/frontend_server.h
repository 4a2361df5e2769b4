#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "server/core/daemon_config.h"
#include "server/core/generation_manager.h"
#include "server/core/pipeline_directory.h"
#include "server/frontend/call_log.h"
#include "server/frontend/generation_service.h"
#include "server/frontend/health_board.h"
#include "server/frontend/health_service.h"
#include "server/frontend/pipeline_service.h"
#include "server/frontend/reflection_service.h"
#include "server/frontend/stream_limiter.h"
#include "server/frontend/write_watchdog.h"

namespace ferry {

// The gRPC servers of ferryd: the API with health and reflection on
// `grpc_address`, and health alone on `health_address` where one is set.
//
// Threads of a server are bounded, one a call. Generate streams, health
// watchers, reflection streams and calls that ask ranks have limits of their
// own below that bound, so that calls which answer at once always find a
// thread.
//
// Ownership: owns services and servers; what start() is given must outlive it.
// Threads: not thread-safe; the services run on gRPC's threads.
class FrontendServer {
 public:
  struct Dependencies {
    GenerationManager* manager;
    const PipelineDirectory* directory;
    const HealthBoard* board;
    const Clock* clock;
    FlightRecordsOf flight_records = {};
  };

  // Builds the servers and listens. UNAVAILABLE names the address and why it
  // cannot be had.
  static absl::StatusOr<std::unique_ptr<FrontendServer>> start(
      const DaemonConfig& config, const Dependencies& dependencies);

  // Shuts down without grace.
  ~FrontendServer();
  FrontendServer(const FrontendServer&) = delete;
  FrontendServer& operator=(const FrontendServer&) = delete;

  // Where clients reach it: the configured address with the port that was
  // bound. `health_address` is empty where there is none.
  const std::string& grpc_address() const { return grpc_address_; }
  const std::string& health_address() const { return health_address_; }

  const CallLog& calls() const { return calls_; }
  // Generate calls that are open now.
  int generate_streams() const { return generate_streams_.open(); }

  // Closes the ports, waits up to `grace` for the calls to end, cancels the
  // rest and blocks until no handler runs: longer than `grace` when one ignores
  // that. The health server goes last. Idempotent.
  void shutdown(absl::Duration grace);

 private:
  FrontendServer(const DaemonConfig& config, const Dependencies& dependencies);

  absl::Status start_api(const DaemonConfig& config);
  absl::Status start_health(const DaemonConfig& config);

  CallLog calls_;
  StreamLimiter generate_streams_;
  StreamLimiter reflection_streams_;
  StreamLimiter api_watchers_;
  StreamLimiter health_watchers_;
  StreamLimiter flight_calls_;
  WriteWatchdog watchdog_;
  GenerationServiceImpl generation_service_;
  PipelineServiceImpl pipeline_service_;
  ReflectionService reflection_service_;
  HealthService api_health_;
  HealthService own_health_;
  std::string grpc_address_;
  std::string health_address_;
  // After the services: destroyed before them.
  std::unique_ptr<grpc::Server> api_server_;
  std::unique_ptr<grpc::Server> health_server_;
};

}  // namespace ferry
