#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "ferry/v1/generation_service.grpc.pb.h"
#include "ferry/v1/pipeline_service.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "platform/base/mutex.h"
#include "platform/base/sha256.h"

namespace ferry {

// An error as ferryd sends it.
inline grpc::Status fake_error(grpc::StatusCode code, const std::string& reason,
                               const std::string& message) {
  google::rpc::Status details;
  details.set_code(code);
  details.set_message(message);
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("ferry.v1");
  details.add_details()->PackFrom(info);
  return grpc::Status(code, message, details.SerializeAsString());
}

// A server with ferryd's API that does what a test tells it, over real gRPC.
// For the client's handling of events, errors, bad bytes and cancels.
//
// Threads: set the fields, then publish() before the calls; the rest is
//   thread-safe.
class FakeFerryd final : public v1::GenerationService::Service {
 public:
  FakeFerryd() : health_(this), pipelines_(this) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(this);
    builder.RegisterService(&health_);
    builder.RegisterService(&pipelines_);
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                   grpc::InsecureChannelCredentials());
  }
  ~FakeFerryd() override {
    server_->Shutdown();
    publish();
  }

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
  v1::GenerateRequest request() const EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    return request_;
  }
  std::string cancelled() const EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    return cancelled_;
  }

  grpc::Status Generate(
      grpc::ServerContext* context, const v1::GenerateRequest* request,
      grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    std::vector<v1::JobEvent> to_send;
    {
      MutexLock lock(&mutex_);
      request_ = *request;
      to_send = events;
    }
    for (v1::JobEvent& event : to_send) {
      v1::GenerateResponse response;
      *response.mutable_event() = std::move(event);
      if (!writer->Write(response)) return grpc::Status::CANCELLED;
    }
    MutexLock lock(&mutex_);
    if (!wait_for_cancel) return end;
    while (cancelled_.empty() && !context->IsCancelled()) {
      changed_.wait_for(&mutex_, std::chrono::milliseconds(50));
    }
    return fake_error(grpc::StatusCode::CANCELLED, "JOB_CANCELLED",
                      "the job was cancelled");
  }

  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::GetJobResponse* response) override {
    MutexLock lock(&mutex_);
    for (const v1::Job& job : jobs) {
      if (job.name() != request->name()) continue;
      *response->mutable_job() = job;
      return grpc::Status::OK;
    }
    return fake_error(grpc::StatusCode::NOT_FOUND, "JOB_NOT_FOUND",
                      "no job is named " + request->name());
  }

  grpc::Status ListJobs(grpc::ServerContext*,
                        const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    MutexLock lock(&mutex_);
    size_t page = 0;
    if (!request->page_token().empty() &&
        !absl::SimpleAtoi(request->page_token(), &page)) {
      return fake_error(grpc::StatusCode::INVALID_ARGUMENT,
                        "INVALID_PAGE_TOKEN", "page_token is not mine");
    }
    if (page < jobs.size()) *response->add_jobs() = jobs[page];
    if (page + 1 < jobs.size()) {
      response->set_next_page_token(std::to_string(page + 1));
    }
    return grpc::Status::OK;
  }

  grpc::Status CancelJob(grpc::ServerContext*,
                         const v1::CancelJobRequest* request,
                         v1::CancelJobResponse* response) override {
    response->mutable_job()->set_name(request->name());
    response->mutable_job()->set_state(v1::Job::STATE_CANCELLED);
    MutexLock lock(&mutex_);
    cancelled_ = request->name();
    changed_.notify_all();
    return grpc::Status::OK;
  }

 private:
  class FakeHealth final : public grpc::health::v1::Health::Service {
   public:
    explicit FakeHealth(FakeFerryd* ferryd) : ferryd_(ferryd) {}
    grpc::Status Check(
        grpc::ServerContext*, const grpc::health::v1::HealthCheckRequest*,
        grpc::health::v1::HealthCheckResponse* response) override {
      MutexLock lock(&ferryd_->mutex_);
      response->set_status(ferryd_->readiness);
      return grpc::Status::OK;
    }

   private:
    FakeFerryd* const ferryd_;
  };

  class FakePipelines final : public v1::PipelineService::Service {
   public:
    explicit FakePipelines(FakeFerryd* ferryd) : ferryd_(ferryd) {}
    grpc::Status ListPipelines(grpc::ServerContext*,
                               const v1::ListPipelinesRequest*,
                               v1::ListPipelinesResponse* response) override {
      MutexLock lock(&ferryd_->mutex_);
      for (const auto& one : ferryd_->pipelines) {
        *response->add_pipelines() = one;
      }
      return grpc::Status::OK;
    }
    grpc::Status GetPipeline(grpc::ServerContext*,
                             const v1::GetPipelineRequest* request,
                             v1::GetPipelineResponse* response) override {
      MutexLock lock(&ferryd_->mutex_);
      for (const auto& one : ferryd_->pipelines) {
        if (one.name() == request->name()) {
          *response->mutable_pipeline() = one;
        }
      }
      return grpc::Status::OK;
    }

    grpc::Status GetFlightRecords(
        grpc::ServerContext*, const v1::GetFlightRecordsRequest* request,
        v1::GetFlightRecordsResponse* response) override {
      MutexLock lock(&ferryd_->mutex_);
      if (request->name() != "pipelines/demo") {
        return fake_error(grpc::StatusCode::NOT_FOUND, "PIPELINE_NOT_FOUND",
                          "no pipeline is named " + request->name());
      }
      *response = ferryd_->flight_records;
      return grpc::Status::OK;
    }

   private:
    FakeFerryd* const ferryd_;
  };

  FakeHealth health_;
  FakePipelines pipelines_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  mutable Mutex mutex_;
  CondVar changed_;
  v1::GenerateRequest request_ GUARDED_BY(mutex_);
  std::string cancelled_ GUARDED_BY(mutex_);
};

// What a generation of `outputs` sends.
inline std::vector<v1::JobEvent> fake_events(
    const std::vector<std::string>& outputs) {
  std::vector<v1::JobEvent> events(2);
  v1::Job& job = *events[0].mutable_job();
  job.set_name("jobs/7");
  job.set_pipeline("pipelines/demo");
  job.set_state(v1::Job::STATE_QUEUED);
  job.mutable_effective_spec()->set_num_images(
      static_cast<int>(outputs.size()));
  v1::Job last = job;
  v1::Progress& progress = *events[1].mutable_progress();
  progress.set_stage(v1::Progress::STAGE_DENOISE);
  progress.set_step(1);
  progress.set_total_steps(2);
  for (size_t i = 0; i < outputs.size(); ++i) {
    v1::OutputInfo info;
    info.set_index(static_cast<int>(i));
    info.set_size_bytes(static_cast<int64_t>(outputs[i].size()));
    info.set_sha256(sha256_hex(outputs[i]));
    info.set_seed(static_cast<int64_t>(42 + i));
    // In two pieces.
    const size_t half = outputs[i].size() / 2;
    for (const size_t offset : {size_t{0}, half}) {
      v1::OutputChunk& chunk = *events.emplace_back().mutable_output_chunk();
      chunk.set_index(info.index());
      chunk.set_offset(static_cast<int64_t>(offset));
      chunk.set_data(offset == 0 ? outputs[i].substr(0, half)
                                 : outputs[i].substr(half));
      if (offset != 0) *chunk.mutable_final_info() = info;
    }
    *last.add_outputs() = info;
  }
  last.set_state(v1::Job::STATE_SUCCEEDED);
  *events.emplace_back().mutable_job() = last;
  return events;
}

}  // namespace ferry
