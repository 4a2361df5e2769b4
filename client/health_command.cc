#include "client/health_command.h"

#include <grpcpp/client_context.h>

#include "client/error_report.h"
#include "client/exit_codes.h"
#include "client/json_output.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace ferry {

int run_health(const CommandContext& context) {
  using grpc::health::v1::HealthCheckResponse;
  const auto stub = grpc::health::v1::Health::NewStub(context.channel);
  grpc::ClientContext call;
  set_deadline(context, &call);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("readiness");
  HealthCheckResponse response;
  const grpc::Status status = stub->Check(&call, request, &response);
  if (!status.ok()) return report_error(status, context.err);
  if (context.json) {
    print_json(response, context.out);
  } else {
    *context.out << HealthCheckResponse::ServingStatus_Name(response.status())
                 << std::endl;
  }
  return response.status() == HealthCheckResponse::SERVING ? kSuccess
                                                           : kNotServing;
}

}  // namespace ferry
