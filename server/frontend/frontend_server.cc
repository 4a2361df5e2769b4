#include "server/frontend/frontend_server.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "platform/base/status_macros.h"
#include "server/frontend/listen_address.h"
#include "server/frontend/unparsable_requests.h"

namespace ferry {
namespace {

// Places below max_inflight that no Generate stream takes.
constexpr int kUnaryPlaces = 32;
constexpr int kMaxWatchers = 16;
constexpr int kMaxReflectionStreams = 16;
constexpr int kMaxFlightCalls = 4;
// Threads with which gRPC waits for calls.
constexpr int kPollers = 4;
constexpr int kHealthUnaryPlaces = 16;
constexpr int kMaxMetadataBytes = 16 << 10;
// Watchers have left by then; a probe is short.
constexpr std::chrono::milliseconds kHealthGrace(100);

int generate_limit(const DaemonConfig& config) {
  return std::max(1, config.max_inflight - kUnaryPlaces);
}

std::vector<std::string> service_names() {
  return {v1::GenerationService::service_full_name(),
          v1::PipelineService::service_full_name(),
          grpc::health::v1::Health::service_full_name(),
          grpc::reflection::v1alpha::ServerReflection::service_full_name()};
}

int milliseconds(absl::Duration duration) {
  constexpr int64_t kMost = 0x7fffffff;
  return static_cast<int>(std::min(absl::ToInt64Milliseconds(duration), kMost));
}

void configure(const DaemonConfig& config, int max_threads,
               grpc::ServerBuilder* builder) {
  // Two daemons on one port would both start, and share its connections.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A generation may send nothing for long: pings keep its connection, and
  // clients' pings are no offence.
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                              milliseconds(config.keepalive_time));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                              milliseconds(config.keepalive_timeout));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      milliseconds(config.min_client_ping_interval));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                              config.max_concurrent_streams);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder->SetMaxReceiveMessageSize(static_cast<int>(config.max_receive_bytes));
  grpc::ResourceQuota quota;
  quota.SetMaxThreads(max_threads);
  builder->SetResourceQuota(quota);
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      interceptors;
  interceptors.push_back(std::make_unique<UnparsableRequests>());
  builder->experimental().SetInterceptorCreators(std::move(interceptors));
}

// Returns the address that clients use.
absl::StatusOr<std::string> listen(const std::string& address,
                                   grpc::ServerBuilder* builder,
                                   std::unique_ptr<grpc::Server>* server) {
  const bool is_unix = absl::StartsWith(address, "unix:");
  if (is_unix) RETURN_IF_ERROR(try_to_listen(address));
  int port = 0;
  builder->AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  *server = builder->BuildAndStart();
  if (*server == nullptr || port == 0) {
    // gRPC does not say why.
    RETURN_IF_ERROR(try_to_listen(address));
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address, ": gRPC refused it"));
  }
  return with_bound_port(address, port);
}

}  // namespace

absl::StatusOr<std::unique_ptr<FrontendServer>> FrontendServer::start(
    const DaemonConfig& config, const Dependencies& dependencies) {
  std::unique_ptr<FrontendServer> server(
      new FrontendServer(config, dependencies));
  RETURN_IF_ERROR(server->start_api(config));
  if (!config.health_address.empty()) {
    RETURN_IF_ERROR(server->start_health(config));
  }
  return server;
}

FrontendServer::FrontendServer(const DaemonConfig& config,
                               const Dependencies& dependencies)
    : calls_(*dependencies.clock),
      generate_streams_(generate_limit(config)),
      reflection_streams_(kMaxReflectionStreams),
      api_watchers_(kMaxWatchers),
      health_watchers_(kMaxWatchers),
      flight_calls_(kMaxFlightCalls),
      watchdog_(config.slow_reader_timeout, *dependencies.clock),
      generation_service_(dependencies.manager, &calls_, &generate_streams_,
                          &watchdog_, *dependencies.clock),
      pipeline_service_(*dependencies.directory, *dependencies.manager,
                        dependencies.flight_records, &calls_, &flight_calls_),
      reflection_service_(service_names(), &calls_, &reflection_streams_),
      api_health_(*dependencies.board, &calls_, &api_watchers_),
      own_health_(*dependencies.board, &calls_, &health_watchers_) {}

FrontendServer::~FrontendServer() { shutdown(absl::ZeroDuration()); }

absl::Status FrontendServer::start_api(const DaemonConfig& config) {
  grpc::ServerBuilder builder;
  const int max_threads = std::max(config.max_inflight, kUnaryPlaces + 1) +
                          kMaxWatchers + kMaxReflectionStreams +
                          kMaxFlightCalls + kPollers;
  configure(config, max_threads, &builder);
  builder.RegisterService(&generation_service_);
  builder.RegisterService(&pipeline_service_);
  builder.RegisterService(&api_health_);
  if (config.enable_reflection) builder.RegisterService(&reflection_service_);
  ASSIGN_OR_RETURN(grpc_address_,
                   listen(config.grpc_address, &builder, &api_server_));
  return absl::OkStatus();
}

absl::Status FrontendServer::start_health(const DaemonConfig& config) {
  grpc::ServerBuilder builder;
  configure(config, kHealthUnaryPlaces + kMaxWatchers + kPollers, &builder);
  builder.RegisterService(&own_health_);
  ASSIGN_OR_RETURN(health_address_,
                   listen(config.health_address, &builder, &health_server_));
  return absl::OkStatus();
}

void FrontendServer::shutdown(absl::Duration grace) {
  if (api_server_ != nullptr) {
    api_server_->Shutdown(std::chrono::system_clock::now() +
                          absl::ToChronoMilliseconds(grace));
    api_server_.reset();
  }
  if (health_server_ != nullptr) {
    health_server_->Shutdown(std::chrono::system_clock::now() + kHealthGrace);
    health_server_.reset();
  }
}

}  // namespace ferry
