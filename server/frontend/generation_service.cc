#include "server/frontend/generation_service.h"

#include <chrono>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "platform/base/status_macros.h"
#include "server/core/errors.h"
#include "server/core/job.h"
#include "server/core/known_fields.h"
#include "server/frontend/event_stream.h"

namespace ferry {
namespace {

// Streams end when generations do: nobody knows when, but soon.
constexpr absl::Duration kRetryStream = absl::Seconds(1);

// The client's deadline as monotonic time; infinite when it set none.
absl::Duration monotonic_deadline(const grpc::ServerContext& context,
                                  const Clock& clock) {
  const std::chrono::system_clock::time_point deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return absl::InfiniteDuration();
  }
  return clock.monotonic() + (absl::FromChrono(deadline) - clock.now());
}

}  // namespace

grpc::Status GenerationServiceImpl::Generate(
    grpc::ServerContext* context, const v1::GenerateRequest* request,
    grpc::ServerWriter<v1::GenerateResponse>* writer) {
  const auto handler = [&](CallNotes& notes) -> absl::Status {
    const StreamLimiter::Ticket ticket = streams_->enter();
    if (!ticket) return too_many_streams(streams_->limit(), kRetryStream);
    ASSIGN_OR_RETURN(
        const std::shared_ptr<Job> job,
        manager_->submit(*request, monotonic_deadline(*context, clock_)));
    notes.job = job->name();
    notes.pipeline = job->pipeline();
    EventStream stream(job.get(), context, writer, watchdog_, clock_);
    return request->validate_only() ? stream.write_snapshot() : stream.run();
  };
  return calls_->run("ferry.v1.GenerationService/Generate", *context, handler);
}

grpc::Status GenerationServiceImpl::GetJob(grpc::ServerContext* context,
                                           const v1::GetJobRequest* request,
                                           v1::GetJobResponse* response) {
  const auto handler = [&](CallNotes& notes) -> absl::Status {
    RETURN_IF_ERROR(check_known_fields(*request));
    ASSIGN_OR_RETURN(const std::shared_ptr<Job> job,
                     manager_->find(request->name()));
    notes.job = job->name();
    *response->mutable_job() = job->snapshot();
    return absl::OkStatus();
  };
  return calls_->run("ferry.v1.GenerationService/GetJob", *context, handler);
}

grpc::Status GenerationServiceImpl::ListJobs(grpc::ServerContext* context,
                                             const v1::ListJobsRequest* request,
                                             v1::ListJobsResponse* response) {
  const auto handler = [&](CallNotes&) -> absl::Status {
    RETURN_IF_ERROR(check_known_fields(*request));
    ASSIGN_OR_RETURN(*response, manager_->list(*request));
    return absl::OkStatus();
  };
  return calls_->run("ferry.v1.GenerationService/ListJobs", *context, handler);
}

grpc::Status GenerationServiceImpl::CancelJob(
    grpc::ServerContext* context, const v1::CancelJobRequest* request,
    v1::CancelJobResponse* response) {
  const auto handler = [&](CallNotes& notes) -> absl::Status {
    RETURN_IF_ERROR(check_known_fields(*request));
    ASSIGN_OR_RETURN(v1::Job job, manager_->cancel(request->name()));
    notes.job = job.name();
    *response->mutable_job() = std::move(job);
    return absl::OkStatus();
  };
  return calls_->run("ferry.v1.GenerationService/CancelJob", *context, handler);
}

grpc::Status GenerationServiceImpl::CreateJob(grpc::ServerContext* context,
                                              const v1::CreateJobRequest*,
                                              v1::CreateJobResponse*) {
  return refuse(context, "ferry.v1.GenerationService/CreateJob");
}

grpc::Status GenerationServiceImpl::WatchJob(
    grpc::ServerContext* context, const v1::WatchJobRequest*,
    grpc::ServerWriter<v1::WatchJobResponse>*) {
  return refuse(context, "ferry.v1.GenerationService/WatchJob");
}

grpc::Status GenerationServiceImpl::DeleteJob(grpc::ServerContext* context,
                                              const v1::DeleteJobRequest*,
                                              v1::DeleteJobResponse*) {
  return refuse(context, "ferry.v1.GenerationService/DeleteJob");
}

grpc::Status GenerationServiceImpl::refuse(grpc::ServerContext* context,
                                           absl::string_view method) {
  return calls_->run(method, *context,
                     [&](CallNotes&) { return method_not_supported(method); });
}

}  // namespace ferry
