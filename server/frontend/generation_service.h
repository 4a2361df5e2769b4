#pragma once

#include "ferry/v1/generation_service.grpc.pb.h"
#include "platform/base/clock.h"
#include "server/core/generation_manager.h"
#include "server/frontend/call_log.h"
#include "server/frontend/stream_limiter.h"
#include "server/frontend/write_watchdog.h"

namespace ferry {

// ferry.v1.GenerationService over the GenerationManager. CreateJob, WatchJob
// and DeleteJob are UNIMPLEMENTED.
//
// Generate holds its thread until the job has ended and the client has read
// everything; it notices within 100 ms that the client has left, and cancels
// the job then.
//
// Ownership: all that it is given must outlive it. Threads: thread-safe.
class GenerationServiceImpl final : public v1::GenerationService::Service {
 public:
  GenerationServiceImpl(GenerationManager* manager, CallLog* calls,
                        StreamLimiter* streams, WriteWatchdog* watchdog,
                        const Clock& clock)
      : manager_(manager),
        calls_(calls),
        streams_(streams),
        watchdog_(watchdog),
        clock_(clock) {}

  grpc::Status Generate(
      grpc::ServerContext* context, const v1::GenerateRequest* request,
      grpc::ServerWriter<v1::GenerateResponse>* writer) override;
  grpc::Status CreateJob(grpc::ServerContext* context,
                         const v1::CreateJobRequest* request,
                         v1::CreateJobResponse* response) override;
  grpc::Status GetJob(grpc::ServerContext* context,
                      const v1::GetJobRequest* request,
                      v1::GetJobResponse* response) override;
  grpc::Status ListJobs(grpc::ServerContext* context,
                        const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override;
  grpc::Status WatchJob(
      grpc::ServerContext* context, const v1::WatchJobRequest* request,
      grpc::ServerWriter<v1::WatchJobResponse>* writer) override;
  grpc::Status CancelJob(grpc::ServerContext* context,
                         const v1::CancelJobRequest* request,
                         v1::CancelJobResponse* response) override;
  grpc::Status DeleteJob(grpc::ServerContext* context,
                         const v1::DeleteJobRequest* request,
                         v1::DeleteJobResponse* response) override;

 private:
  grpc::Status refuse(grpc::ServerContext* context, absl::string_view method);

  GenerationManager* const manager_;
  CallLog* const calls_;
  StreamLimiter* const streams_;
  WriteWatchdog* const watchdog_;
  const Clock& clock_;
};

}  // namespace ferry
