#pragma once

#include <string>

#include "ferry/v1/generation_service.grpc.pb.h"
#include "grpcpp/support/status.h"

namespace ferry {

// A unary call's answer.
template <typename Response>
struct CallResult {
  grpc::Status status;
  Response response;
};

// The unary calls of GenerationService, each with a deadline of 30 s.
CallResult<v1::GetJobResponse> get_job(
    v1::GenerationService::StubInterface& stub, const std::string& name);
CallResult<v1::CancelJobResponse> cancel_job(
    v1::GenerationService::StubInterface& stub, const std::string& name);
CallResult<v1::ListJobsResponse> list_jobs(
    v1::GenerationService::StubInterface& stub,
    const v1::ListJobsRequest& request);

}  // namespace ferry
