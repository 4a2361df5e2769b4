#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/server.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "ferry/v1/generation_service.grpc.pb.h"
#include "ferry/v1/pipeline_service.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "platform/base/mutex.h"

namespace ferry {

// An error as ferryd sends it.
grpc::Status fake_error(grpc::StatusCode code, const std::string& reason,
                        const std::string& message);

// A server with ferryd's API that does what a test tells it, over real gRPC.
// For the client's handling of events, errors, bad bytes and cancels.
//
// Threads: set the fields, then publish() before the calls; the rest is
//   thread-safe.
class FakeFerryd final : public v1::GenerationService::Service {
 public:
  FakeFerryd();
  ~FakeFerryd() override;

  // Of gRPC's threads ThreadSanitizer sees only what they do under the lock.
  void publish() EXCLUDES_LOCK(mutex_) { MutexLock lock(&mutex_); }

  std::shared_ptr<grpc::Channel> channel() const { return channel_; }

  // What Generate sends, and how it ends.
  std::vector<v1::JobEvent> events;
  grpc::Status end;
  // Generate waits for CancelJob after its events, and ends with CANCELLED.
  bool wait_for_cancel = false;
  std::atomic<grpc::health::v1::HealthCheckResponse::ServingStatus> readiness{
      grpc::health::v1::HealthCheckResponse::SERVING};
  // What lists tell, one a page.
  std::vector<v1::Job> jobs;
  std::vector<v1::Pipeline> pipelines;
  // Of pipelines/demo.
  v1::GetFlightRecordsResponse flight_records;

  // What Generate was asked.
  v1::GenerateRequest request() const EXCLUDES_LOCK(mutex_);
  // The job that CancelJob was called for.
  std::string cancelled() const EXCLUDES_LOCK(mutex_);

  grpc::Status Generate(
      grpc::ServerContext* context, const v1::GenerateRequest* request,
      grpc::ServerWriter<v1::GenerateResponse>* writer) override;
  grpc::Status GetJob(grpc::ServerContext* context,
                      const v1::GetJobRequest* request,
                      v1::GetJobResponse* response) override;
  grpc::Status ListJobs(grpc::ServerContext* context,
                        const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override;
  grpc::Status CancelJob(grpc::ServerContext* context,
                         const v1::CancelJobRequest* request,
                         v1::CancelJobResponse* response) override;

 private:
  // The other services.
  class FakeHealth;
  class FakePipelines;

  const std::unique_ptr<FakeHealth> health_;
  const std::unique_ptr<FakePipelines> pipelines_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  mutable Mutex mutex_;
  CondVar changed_;
  v1::GenerateRequest request_ GUARDED_BY(mutex_);
  std::string cancelled_ GUARDED_BY(mutex_);
};

}  // namespace ferry
