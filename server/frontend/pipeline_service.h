#pragma once

#include "ferry/v1/pipeline_service.grpc.pb.h"
#include "server/core/pipeline_directory.h"
#include "server/frontend/call_log.h"

namespace ferry {

// ferry.v1.PipelineService over the directory. LoadPipeline and UnloadPipeline
// are UNIMPLEMENTED.
//
// Ownership: directory and log must outlive it. Threads: thread-safe.
class PipelineServiceImpl final : public v1::PipelineService::Service {
 public:
  PipelineServiceImpl(const PipelineDirectory& directory, CallLog* calls)
      : directory_(directory), calls_(calls) {}

  grpc::Status ListPipelines(grpc::ServerContext* context,
                             const v1::ListPipelinesRequest* request,
                             v1::ListPipelinesResponse* response) override;
  grpc::Status GetPipeline(grpc::ServerContext* context,
                           const v1::GetPipelineRequest* request,
                           v1::GetPipelineResponse* response) override;
  grpc::Status LoadPipeline(grpc::ServerContext* context,
                            const v1::LoadPipelineRequest* request,
                            v1::LoadPipelineResponse* response) override;
  grpc::Status UnloadPipeline(grpc::ServerContext* context,
                              const v1::UnloadPipelineRequest* request,
                              v1::UnloadPipelineResponse* response) override;

 private:
  const PipelineDirectory& directory_;
  CallLog* const calls_;
};

}  // namespace ferry
