#include "server/frontend/health_service.h"

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "platform/base/error_info.h"
#include "server/core/errors.h"

namespace ferry {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// How long a watcher may go unnoticed that has left.
constexpr absl::Duration kSlice = absl::Milliseconds(100);

HealthCheckResponse to_response(HealthBoard::Status status) {
  HealthCheckResponse response;
  response.set_status(!status.has_value() ? HealthCheckResponse::SERVICE_UNKNOWN
                      : *status           ? HealthCheckResponse::SERVING
                                          : HealthCheckResponse::NOT_SERVING);
  return response;
}

}  // namespace

grpc::Status HealthService::Check(grpc::ServerContext* context,
                                  const HealthCheckRequest* request,
                                  HealthCheckResponse* response) {
  const auto handler = [&](CallNotes&) -> absl::Status {
    const HealthBoard::Status status = board_.find(request->service());
    if (!status.has_value()) {
      return make_error(
          absl::StatusCode::kNotFound,
          "service: unknown; known are liveness, startup, readiness, "
          "ferry.v1.GenerationService and pipelines/{pipeline}",
          ErrorInfo{"HEALTH_SERVICE_NOT_FOUND", {}});
    }
    *response = to_response(status);
    return absl::OkStatus();
  };
  return calls_->run("grpc.health.v1.Health/Check", *context, handler,
                     LogLevel::kDebug);
}

grpc::Status HealthService::Watch(
    grpc::ServerContext* context, const HealthCheckRequest* request,
    grpc::ServerWriter<HealthCheckResponse>* writer) {
  const auto handler = [&](CallNotes&) -> absl::Status {
    const StreamLimiter::Ticket ticket = watchers_->enter();
    if (!ticket) return too_many_streams(watchers_->limit(), absl::Seconds(10));
    HealthBoard::Status told = board_.find(request->service());
    bool alive = writer->Write(to_response(told));
    bool open = true;
    while (alive && open && !context->IsCancelled()) {
      // Asked before the status, so that the last change is told, too.
      open = !board_.is_closed();
      const HealthBoard::Status now =
          board_.wait_for_change(request->service(), told, kSlice);
      if (now == told) continue;
      told = now;
      alive = writer->Write(to_response(told));
    }
    if (!open) return server_draining(absl::Seconds(10));
    return client_cancelled();
  };
  return calls_->run("grpc.health.v1.Health/Watch", *context, handler,
                     LogLevel::kDebug);
}

}  // namespace ferry
