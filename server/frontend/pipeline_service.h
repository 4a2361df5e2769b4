#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "ferry/v1/pipeline_service.grpc.pb.h"
#include "server/core/generation_manager.h"
#include "server/core/pipeline_directory.h"
#include "server/frontend/call_log.h"
#include "server/frontend/stream_limiter.h"

namespace ferry {

// What the ranks of this pipeline's group did together of late; no generation,
// when there is no group. May block for a second or two. Thread-safe.
using FlightRecordsOf =
    std::function<v1::GetFlightRecordsResponse(const std::string& pipeline)>;

// ferry.v1.PipelineService over the directory, over the manager for what the
// ranks run and which limits requests meet, and over the supervisor for their
// flight records. LoadPipeline and UnloadPipeline are UNIMPLEMENTED.
//
// What asks ranks may wait for them, and has places of its own, so that other
// calls always find one.
//
// Ownership: what it is given must outlive it. Threads: thread-safe.
class PipelineServiceImpl final : public v1::PipelineService::Service {
 public:
  PipelineServiceImpl(const PipelineDirectory& directory,
                      const GenerationManager& manager,
                      FlightRecordsOf flight_records, CallLog* calls,
                      StreamLimiter* flight_calls)
      : directory_(directory),
        manager_(manager),
        flight_records_(std::move(flight_records)),
        calls_(calls),
        flight_calls_(flight_calls) {}

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
  grpc::Status GetFlightRecords(
      grpc::ServerContext* context, const v1::GetFlightRecordsRequest* request,
      v1::GetFlightRecordsResponse* response) override;

 private:
  // As the directory has it.
  absl::StatusOr<v1::Pipeline> find(const std::string& name) const;
  // Adds what the directory does not know.
  void complete(v1::Pipeline* pipeline) const;

  const PipelineDirectory& directory_;
  const GenerationManager& manager_;
  const FlightRecordsOf flight_records_;
  CallLog* const calls_;
  StreamLimiter* const flight_calls_;
};

}  // namespace ferry
