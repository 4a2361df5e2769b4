#include "client/pipelines_command.h"

#include <grpcpp/client_context.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/error_report.h"
#include "client/exit_codes.h"
#include "client/flight_records_text.h"
#include "client/json_output.h"
#include "client/offload_text.h"
#include "client/text_format.h"
#include "ferry/v1/pipeline_service.grpc.pb.h"

namespace ferry {
namespace {

using Rows = std::vector<std::vector<std::string>>;

void add_limits(const v1::Pipeline& pipeline, Rows* rows) {
  const v1::Limits& limits = pipeline.limits();
  const v1::GenerationSpec& defaults = pipeline.defaults();
  rows->push_back(
      {"size",
       absl::StrCat("default ", defaults.width(), "x", defaults.height(), ", ",
                    limits.min_edge(), " to ", limits.max_edge(),
                    ", multiples of ", limits.size_multiple())});
  rows->push_back(
      {"steps", absl::StrCat("default ", defaults.num_inference_steps(),
                             ", at most ", limits.max_num_inference_steps())});
  rows->push_back(
      {"guidance", absl::StrCat("default ", defaults.guidance_scale())});
  rows->push_back({"images", absl::StrCat("at most ", limits.max_images())});
}

std::string rank_text(const v1::Rank& rank) {
  std::string text =
      absl::StrCat("pid ", rank.pid(), " on ", printable(rank.device()), " of ",
                   printable(rank.host()), " ",
                   rank.job().empty() ? "idle" : printable(rank.job()));
  if (rank.has_predicted_pass_time()) {
    absl::StrAppend(&text, ", ",
                    fine_duration(to_duration(rank.predicted_pass_time())),
                    " a pass");
  }
  return text;
}

void print_pipeline(const v1::Pipeline& pipeline, std::ostream* out) {
  Rows rows = {
      {"name", printable(pipeline.name())},
      {"state", state_name(pipeline.state())},
      {"tasks", printable(absl::StrJoin(pipeline.tasks(), ", "))},
      {"schedulers", printable(absl::StrJoin(pipeline.schedulers(), ", "))},
      {"version", printable(pipeline.version())},
      {"generation", absl::StrCat(pipeline.generation())},
  };
  if (pipeline.has_limits()) add_limits(pipeline, &rows);
  if (pipeline.has_offload()) {
    const Rows offload = offload_rows(pipeline.offload());
    rows.insert(rows.end(), offload.begin(), offload.end());
  }
  for (const v1::Rank& rank : pipeline.ranks()) {
    rows.push_back({absl::StrCat("rank ", rank.index()), rank_text(rank)});
  }
  if (pipeline.has_error()) {
    rows.push_back({"error", describe_error(pipeline.error())});
  }
  *out << table(rows);
  const std::string components = component_table(pipeline.offload());
  if (!components.empty()) *out << "\n" << components;
}

}  // namespace

int run_pipelines_list(const CommandContext& context) {
  const auto stub = v1::PipelineService::NewStub(context.channel);
  v1::ListPipelinesRequest request;
  v1::ListPipelinesResponse all;
  do {
    grpc::ClientContext call;
    set_deadline(context, &call);
    v1::ListPipelinesResponse page;
    const grpc::Status status = stub->ListPipelines(&call, request, &page);
    if (!status.ok()) return report_error(status, context.err);
    all.mutable_pipelines()->MergeFrom(page.pipelines());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());

  if (context.json) {
    print_json(all, context.out);
    return kSuccess;
  }
  Rows rows = {{"NAME", "STATE", "TASKS", "OFFLOAD", "GENERATION", "RANKS"}};
  for (const v1::Pipeline& pipeline : all.pipelines()) {
    rows.push_back({printable(pipeline.name()), state_name(pipeline.state()),
                    printable(absl::StrJoin(pipeline.tasks(), ",")),
                    printable(pipeline.offload().strategy()),
                    absl::StrCat(pipeline.generation()),
                    absl::StrCat(pipeline.ranks_size())});
  }
  *context.out << table(rows);
  return kSuccess;
}

int run_pipelines_get(const CommandContext& context, const std::string& name) {
  const auto stub = v1::PipelineService::NewStub(context.channel);
  grpc::ClientContext call;
  set_deadline(context, &call);
  v1::GetPipelineRequest request;
  request.set_name(resource_name("pipelines", name));
  v1::GetPipelineResponse response;
  const grpc::Status status = stub->GetPipeline(&call, request, &response);
  if (!status.ok()) return report_error(status, context.err);
  if (context.json) {
    print_json(response.pipeline(), context.out);
  } else {
    print_pipeline(response.pipeline(), context.out);
  }
  return kSuccess;
}

int run_pipelines_flight_records(const CommandContext& context,
                                 const std::string& name) {
  const auto stub = v1::PipelineService::NewStub(context.channel);
  grpc::ClientContext call;
  set_deadline(context, &call);
  v1::GetFlightRecordsRequest request;
  request.set_name(resource_name("pipelines", name));
  v1::GetFlightRecordsResponse response;
  const grpc::Status status = stub->GetFlightRecords(&call, request, &response);
  if (!status.ok()) return report_error(status, context.err);
  if (context.json) {
    print_json(response, context.out);
  } else {
    *context.out << flight_records_text(response);
  }
  return kSuccess;
}

}  // namespace ferry
