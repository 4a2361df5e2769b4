#pragma once

#include "ferry/v1/pipeline_service.grpc.pb.h"
#include "server/core/generation_manager.h"
#include "server/core/pipeline_directory.h"
#include "server/frontend/call_log.h"

namespace ferry {

// ferry.v1.PipelineService over the directory, and over the manager for what
// the ranks run and which limits requests meet. LoadPipeline and UnloadPipeline
// are UNIMPLEMENTED.
//
// Ownership: what it is given must outlive it. Threads: thread-safe.
class PipelineServiceImpl final : public v1::PipelineService::Service {
 public:
  PipelineServiceImpl(const PipelineDirectory& directory,
                      const GenerationManager& manager, CallLog* calls)
      : directory_(directory), manager_(manager), calls_(calls) {}

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
  // Adds what the directory does not know.
  void complete(v1::Pipeline* pipeline) const;

  const PipelineDirectory& directory_;
  const GenerationManager& manager_;
  CallLog* const calls_;
};

}  // namespace ferry
