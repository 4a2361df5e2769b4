#include "client/testing/fake_ferryd.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <cstddef>
#include <utility>

#include "absl/strings/numbers.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace ferry {

grpc::Status fake_error(grpc::StatusCode code, const std::string& reason,
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

class FakeFerryd::FakeHealth final : public grpc::health::v1::Health::Service {
 public:
  explicit FakeHealth(FakeFerryd* ferryd) : ferryd_(ferryd) {}
  grpc::Status Check(grpc::ServerContext*,
                     const grpc::health::v1::HealthCheckRequest*,
                     grpc::health::v1::HealthCheckResponse* response) override {
    MutexLock lock(&ferryd_->mutex_);
    response->set_status(ferryd_->readiness);
    return grpc::Status::OK;
  }

 private:
  FakeFerryd* const ferryd_;
};

class FakeFerryd::FakePipelines final : public v1::PipelineService::Service {
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

FakeFerryd::FakeFerryd()
    : health_(std::make_unique<FakeHealth>(this)),
      pipelines_(std::make_unique<FakePipelines>(this)) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(this);
  builder.RegisterService(health_.get());
  builder.RegisterService(pipelines_.get());
  server_ = builder.BuildAndStart();
  channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                 grpc::InsecureChannelCredentials());
}

FakeFerryd::~FakeFerryd() {
  server_->Shutdown();
  publish();
}

v1::GenerateRequest FakeFerryd::request() const {
  MutexLock lock(&mutex_);
  return request_;
}

std::string FakeFerryd::cancelled() const {
  MutexLock lock(&mutex_);
  return cancelled_;
}

grpc::Status FakeFerryd::Generate(
    grpc::ServerContext* context, const v1::GenerateRequest* request,
    grpc::ServerWriter<v1::GenerateResponse>* writer) {
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

grpc::Status FakeFerryd::GetJob(grpc::ServerContext*,
                                const v1::GetJobRequest* request,
                                v1::GetJobResponse* response) {
  MutexLock lock(&mutex_);
  for (const v1::Job& job : jobs) {
    if (job.name() != request->name()) continue;
    *response->mutable_job() = job;
    return grpc::Status::OK;
  }
  return fake_error(grpc::StatusCode::NOT_FOUND, "JOB_NOT_FOUND",
                    "no job is named " + request->name());
}

grpc::Status FakeFerryd::ListJobs(grpc::ServerContext*,
                                  const v1::ListJobsRequest* request,
                                  v1::ListJobsResponse* response) {
  MutexLock lock(&mutex_);
  size_t page = 0;
  if (!request->page_token().empty() &&
      !absl::SimpleAtoi(request->page_token(), &page)) {
    return fake_error(grpc::StatusCode::INVALID_ARGUMENT, "INVALID_PAGE_TOKEN",
                      "page_token is not mine");
  }
  if (page < jobs.size()) *response->add_jobs() = jobs[page];
  if (page + 1 < jobs.size()) {
    response->set_next_page_token(std::to_string(page + 1));
  }
  return grpc::Status::OK;
}

grpc::Status FakeFerryd::CancelJob(grpc::ServerContext*,
                                   const v1::CancelJobRequest* request,
                                   v1::CancelJobResponse* response) {
  response->mutable_job()->set_name(request->name());
  response->mutable_job()->set_state(v1::Job::STATE_CANCELLED);
  MutexLock lock(&mutex_);
  cancelled_ = request->name();
  changed_.notify_all();
  return grpc::Status::OK;
}

}  // namespace ferry
