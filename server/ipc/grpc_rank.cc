#include "server/ipc/grpc_rank.h"

#include <optional>
#include <utility>

#include "platform/base/check.h"
#include "platform/base/error_info.h"
#include "server/core/errors.h"
#include "server/ipc/grpc_status.h"

namespace ferry {
namespace {

using worker::v1::GenerationSummary;
using worker::v1::RunGenerationResponse;
using worker::v1::WorkerService;

// The supervisor sees the end of a process within milliseconds.
constexpr std::chrono::seconds kLostTimeout(5);

void deliver(RunGenerationResponse& response, RankEvents& events,
             std::optional<GenerationSummary>& summary) {
  switch (response.event_case()) {
    case RunGenerationResponse::kProgress:
      events.on_progress(std::move(*response.mutable_progress()));
      return;
    case RunGenerationResponse::kPreview:
      events.on_preview(std::move(*response.mutable_preview()));
      return;
    case RunGenerationResponse::kOutputChunk:
      events.on_output_chunk(std::move(*response.mutable_output_chunk()));
      return;
    case RunGenerationResponse::kSummary:
      summary = std::move(*response.mutable_summary());
      return;
    case RunGenerationResponse::EVENT_NOT_SET:
      return;
  }
}

}  // namespace

GrpcRank::GrpcRank(std::string pipeline, std::shared_ptr<grpc::Channel> channel)
    : pipeline_(std::move(pipeline)),
      stub_(WorkerService::NewStub(std::move(channel))) {}

absl::StatusOr<GenerationSummary> GrpcRank::run(
    const worker::v1::RunGenerationRequest& request, RankEvents& events) {
  grpc::ClientContext context;
  begin_run(context);
  const auto reader = stub_->RunGeneration(&context, request);
  std::optional<GenerationSummary> summary;
  RunGenerationResponse response;
  while (reader->Read(&response)) deliver(response, events, summary);
  const absl::Status status = from_grpc_status(reader->Finish());
  enter(Phase::kIdle, nullptr);

  if (status.ok()) {
    if (summary.has_value()) return *std::move(summary);
    return internal_error("the worker ended a generation without a summary");
  }
  // What the worker says carries a reason; what gRPC says does not.
  if (get_error_info(status).has_value()) return status;
  // The call has ended here; there, the step may still run.
  if (!absl::IsUnavailable(status) && wait_until_idle()) return status;
  return lost_error();
}

void GrpcRank::cancel() {
  MutexLock lock(&mutex_);
  if (phase_ == Phase::kGenerating) context_->TryCancel();
}

absl::StatusOr<worker::v1::GetFlightRecordsResponse> GrpcRank::flight_records(
    std::chrono::system_clock::time_point deadline) {
  grpc::ClientContext context;
  context.set_deadline(deadline);
  worker::v1::GetFlightRecordsResponse response;
  const grpc::Status status = stub_->GetFlightRecords(&context, {}, &response);
  if (!status.ok()) return from_grpc_status(status);
  return response;
}

void GrpcRank::set_lost(const absl::Status& error) {
  const std::optional<ErrorInfo> info = get_error_info(error);
  FERRY_CHECK(info.has_value());
  FERRY_CHECK_EQ(info->reason, "WORKER_LOST");
  MutexLock lock(&mutex_);
  if (!lost_error_.ok()) return;
  lost_error_ = error;
  if (context_ != nullptr) context_->TryCancel();
  lost_.notify_all();
}

void GrpcRank::begin_run(grpc::ClientContext& context) {
  MutexLock lock(&mutex_);
  FERRY_CHECK_EQ(phase_, Phase::kIdle);
  enter_locked(Phase::kGenerating, &context);
}

void GrpcRank::enter(Phase phase, grpc::ClientContext* context) {
  MutexLock lock(&mutex_);
  enter_locked(phase, context);
}

void GrpcRank::enter_locked(Phase phase, grpc::ClientContext* context) {
  phase_ = phase;
  context_ = context;
  if (!lost_error_.ok() && context != nullptr) context->TryCancel();
}

bool GrpcRank::wait_until_idle() {
  grpc::ClientContext context;
  worker::v1::WaitIdleResponse response;
  enter(Phase::kWaitingForIdle, &context);
  const grpc::Status status = stub_->WaitIdle(&context, {}, &response);
  enter(Phase::kIdle, nullptr);
  return status.ok();
}

absl::Status GrpcRank::lost_error() {
  MutexLock lock(&mutex_);
  const auto deadline = std::chrono::steady_clock::now() + kLostTimeout;
  while (lost_error_.ok()) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) break;
    lost_.wait_for(&mutex_, left);
  }
  if (!lost_error_.ok()) return lost_error_;
  return worker_lost(pipeline_, "the connection to it has ended");
}

}  // namespace ferry
