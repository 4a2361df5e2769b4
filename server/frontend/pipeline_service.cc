#include "server/frontend/pipeline_service.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "platform/base/status_macros.h"
#include "server/core/errors.h"
#include "server/core/known_fields.h"
#include "server/core/proto_time.h"

namespace ferry {
namespace {

constexpr int kDefaultPageSize = 50;
constexpr int kMaxPageSize = 1000;
constexpr size_t kMaxPageBytes = 512 << 10;
// Longer than a rank that does not answer holds a place.
constexpr absl::Duration kRetryFlight = absl::Seconds(2);

// The page's token is the name of the last pipeline of the page before.
absl::Status list_page(const v1::ListPipelinesRequest& request,
                       std::vector<v1::Pipeline> all,
                       v1::ListPipelinesResponse* response) {
  if (request.page_size() < 0 || request.page_size() > kMaxPageSize) {
    return invalid_field("page_size",
                         absl::StrCat("must be 0 to ", kMaxPageSize, ", got ",
                                      request.page_size()));
  }
  auto next = all.begin();
  if (!request.page_token().empty()) {
    next = std::find_if(all.begin(), all.end(), [&](const auto& pipeline) {
      return pipeline.name() == request.page_token();
    });
    if (next == all.end()) return invalid_page_token();
    ++next;
  }
  const int page_size =
      request.page_size() == 0 ? kDefaultPageSize : request.page_size();
  size_t bytes = 0;
  for (; next != all.end(); ++next) {
    bytes += next->ByteSizeLong();
    const int count = response->pipelines_size();
    if (count == page_size || (count > 0 && bytes > kMaxPageBytes)) {
      response->set_next_page_token(response->pipelines(count - 1).name());
      break;
    }
    *response->add_pipelines() = std::move(*next);
  }
  return absl::OkStatus();
}

}  // namespace

grpc::Status PipelineServiceImpl::ListPipelines(
    grpc::ServerContext* context, const v1::ListPipelinesRequest* request,
    v1::ListPipelinesResponse* response) {
  return calls_->run(
      "ferry.v1.PipelineService/ListPipelines", *context,
      [&](CallNotes&) -> absl::Status {
        RETURN_IF_ERROR(check_known_fields(*request));
        RETURN_IF_ERROR(list_page(*request, directory_.list(), response));
        for (auto& pipeline : *response->mutable_pipelines()) {
          complete(&pipeline);
        }
        return absl::OkStatus();
      });
}

grpc::Status PipelineServiceImpl::GetPipeline(
    grpc::ServerContext* context, const v1::GetPipelineRequest* request,
    v1::GetPipelineResponse* response) {
  const auto handler = [&](CallNotes& notes) -> absl::Status {
    RETURN_IF_ERROR(check_known_fields(*request));
    ASSIGN_OR_RETURN(*response->mutable_pipeline(), find(request->name()));
    notes.pipeline = request->name();
    complete(response->mutable_pipeline());
    return absl::OkStatus();
  };
  return calls_->run("ferry.v1.PipelineService/GetPipeline", *context, handler);
}

grpc::Status PipelineServiceImpl::LoadPipeline(grpc::ServerContext* context,
                                               const v1::LoadPipelineRequest*,
                                               v1::LoadPipelineResponse*) {
  constexpr absl::string_view kMethod = "ferry.v1.PipelineService/LoadPipeline";
  return calls_->run(kMethod, *context,
                     [&](CallNotes&) { return method_not_supported(kMethod); });
}

grpc::Status PipelineServiceImpl::UnloadPipeline(
    grpc::ServerContext* context, const v1::UnloadPipelineRequest*,
    v1::UnloadPipelineResponse*) {
  constexpr absl::string_view kMethod =
      "ferry.v1.PipelineService/UnloadPipeline";
  return calls_->run(kMethod, *context,
                     [&](CallNotes&) { return method_not_supported(kMethod); });
}

grpc::Status PipelineServiceImpl::GetFlightRecords(
    grpc::ServerContext* context, const v1::GetFlightRecordsRequest* request,
    v1::GetFlightRecordsResponse* response) {
  const auto handler = [&](CallNotes& notes) -> absl::Status {
    RETURN_IF_ERROR(check_known_fields(*request));
    ASSIGN_OR_RETURN(const v1::Pipeline pipeline, find(request->name()));
    notes.pipeline = request->name();
    const StreamLimiter::Ticket ticket = flight_calls_->enter();
    if (!ticket) return too_many_streams(flight_calls_->limit(), kRetryFlight);
    *response = flight_records_(request->name());
    if (response->generation() == 0) {
      response->set_generation(pipeline.generation());
    }
    return absl::OkStatus();
  };
  return calls_->run("ferry.v1.PipelineService/GetFlightRecords", *context,
                     handler);
}

absl::StatusOr<v1::Pipeline> PipelineServiceImpl::find(
    const std::string& name) const {
  if (!absl::StartsWith(name, "pipelines/")) {
    return invalid_field("name", "must be pipelines/{pipeline}");
  }
  std::optional<v1::Pipeline> pipeline = directory_.find(name);
  if (!pipeline.has_value()) return pipeline_not_found(name);
  return *std::move(pipeline);
}

void PipelineServiceImpl::complete(v1::Pipeline* pipeline) const {
  // None before the first load: nobody knows them yet.
  if (pipeline->has_limits()) {
    *pipeline->mutable_limits() = manager_.limits_of(*pipeline);
  }
  const std::vector<GenerationManager::RankUse> uses =
      manager_.rank_uses(pipeline->name());
  // Ranks are added to the manager in the order of their index.
  const size_t count =
      std::min(uses.size(), static_cast<size_t>(pipeline->ranks_size()));
  for (size_t i = 0; i < count; ++i) {
    v1::Rank& rank = *pipeline->mutable_ranks(static_cast<int>(i));
    rank.set_job(uses[i].job);
    if (uses[i].pass_time.has_value()) {
      *rank.mutable_predicted_pass_time() = to_proto(*uses[i].pass_time);
    }
  }
}

}  // namespace ferry
