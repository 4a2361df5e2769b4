#include "tests/support/job_calls.h"

#include <chrono>

#include "grpcpp/client_context.h"

namespace ferry {
namespace {

void set_timeout(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(30));
}

}  // namespace

CallResult<v1::GetJobResponse> get_job(
    v1::GenerationService::StubInterface& stub, const std::string& name) {
  grpc::ClientContext context;
  set_timeout(context);
  v1::GetJobRequest request;
  request.set_name(name);
  CallResult<v1::GetJobResponse> result;
  result.status = stub.GetJob(&context, request, &result.response);
  return result;
}

CallResult<v1::CancelJobResponse> cancel_job(
    v1::GenerationService::StubInterface& stub, const std::string& name) {
  grpc::ClientContext context;
  set_timeout(context);
  v1::CancelJobRequest request;
  request.set_name(name);
  CallResult<v1::CancelJobResponse> result;
  result.status = stub.CancelJob(&context, request, &result.response);
  return result;
}

CallResult<v1::ListJobsResponse> list_jobs(
    v1::GenerationService::StubInterface& stub,
    const v1::ListJobsRequest& request) {
  grpc::ClientContext context;
  set_timeout(context);
  CallResult<v1::ListJobsResponse> result;
  result.status = stub.ListJobs(&context, request, &result.response);
  return result;
}

}  // namespace ferry
