#include "client/jobs_command.h"

#include <grpcpp/client_context.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/error_report.h"
#include "client/exit_codes.h"
#include "client/json_output.h"
#include "client/offload_text.h"
#include "client/text_format.h"
#include "ferry/v1/generation_service.grpc.pb.h"

namespace ferry {
namespace {

// `denoise 3/30`, `queued, 2 ahead`.
std::string progress_text(const v1::Job& job) {
  const v1::Progress& progress = job.progress();
  if (job.state() == v1::Job::STATE_QUEUED) {
    return absl::StrCat(progress.queue_position(), " ahead");
  }
  if (progress.total_steps() == 0) return "-";
  return absl::StrCat(progress.step(), "/", progress.total_steps());
}

std::string total_text(const v1::Job& job) {
  return job.timings().has_total()
             ? short_duration(to_duration(job.timings().total()))
             : "-";
}

void add_spec(const v1::GenerationSpec& spec,
              std::vector<std::vector<std::string>>* rows) {
  rows->push_back({"prompt", printable(spec.prompt())});
  if (spec.has_negative_prompt()) {
    rows->push_back({"negative prompt", printable(spec.negative_prompt())});
  }
  rows->push_back({"size", absl::StrCat(spec.width(), "x", spec.height())});
  if (spec.sigmas().empty()) {
    rows->push_back({"steps", absl::StrCat(spec.num_inference_steps())});
  } else {
    rows->push_back({"sigmas", absl::StrJoin(spec.sigmas(), ", ")});
  }
  rows->push_back({"scheduler", printable(spec.scheduler())});
  rows->push_back({"guidance", absl::StrCat(spec.guidance_scale())});
  rows->push_back({"seed", absl::StrCat(spec.seed())});
  rows->push_back({"images", absl::StrCat(spec.num_images())});
}

void print_job(const v1::Job& job, std::ostream* out) {
  std::vector<std::vector<std::string>> rows = {
      {"name", printable(job.name())},
      {"state", state_name(job.state())},
      {"pipeline", printable(job.pipeline())},
      {"priority", absl::StrCat(job.priority())},
      {"progress", progress_text(job)},
      {"created", short_time(job.create_time())},
      {"started", short_time(job.start_time())},
      {"ended", short_time(job.end_time())},
      {"total", total_text(job)},
  };
  const OffloadRows offload = offload_rows(job.timings());
  rows.insert(rows.end(), offload.begin(), offload.end());
  if (job.has_effective_spec()) add_spec(job.effective_spec(), &rows);
  for (const v1::OutputInfo& output : job.outputs()) {
    rows.push_back(
        {absl::StrCat("output ", output.index()),
         absl::StrCat(printable(output.mime_type()), " ",
                      short_bytes(output.size_bytes()), " seed ", output.seed(),
                      " sha256 ", printable(output.sha256()))});
  }
  for (const auto& [key, value] : job.labels()) {
    rows.push_back({"label", printable(absl::StrCat(key, "=", value))});
  }
  if (job.has_error()) rows.push_back({"error", describe_error(job.error())});
  *out << table(rows);
}

void show_job(const CommandContext& context, const v1::Job& job) {
  if (context.json) {
    print_json(job, context.out);
  } else {
    print_job(job, context.out);
  }
}

}  // namespace

int run_jobs_list(const CommandContext& context) {
  const auto stub = v1::GenerationService::NewStub(context.channel);
  v1::ListJobsRequest request;
  v1::ListJobsResponse all;
  do {
    grpc::ClientContext call;
    set_deadline(context, &call);
    v1::ListJobsResponse page;
    const grpc::Status status = stub->ListJobs(&call, request, &page);
    if (!status.ok()) return report_error(status, context.err);
    all.mutable_jobs()->MergeFrom(page.jobs());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());

  if (context.json) {
    print_json(all, context.out);
    return kSuccess;
  }
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "STATE", "PIPELINE", "PROGRESS", "CREATED", "TOTAL"}};
  for (const v1::Job& job : all.jobs()) {
    rows.push_back({printable(job.name()), state_name(job.state()),
                    printable(job.pipeline()), progress_text(job),
                    short_time(job.create_time()), total_text(job)});
  }
  *context.out << table(rows);
  return kSuccess;
}

int run_jobs_get(const CommandContext& context, const std::string& name) {
  const auto stub = v1::GenerationService::NewStub(context.channel);
  grpc::ClientContext call;
  set_deadline(context, &call);
  v1::GetJobRequest request;
  request.set_name(resource_name("jobs", name));
  v1::GetJobResponse response;
  const grpc::Status status = stub->GetJob(&call, request, &response);
  if (!status.ok()) return report_error(status, context.err);
  show_job(context, response.job());
  return kSuccess;
}

int run_jobs_cancel(const CommandContext& context, const std::string& name) {
  const auto stub = v1::GenerationService::NewStub(context.channel);
  grpc::ClientContext call;
  set_deadline(context, &call);
  v1::CancelJobRequest request;
  request.set_name(resource_name("jobs", name));
  v1::CancelJobResponse response;
  const grpc::Status status = stub->CancelJob(&call, request, &response);
  if (!status.ok()) return report_error(status, context.err);
  show_job(context, response.job());
  return kSuccess;
}

}  // namespace ferry
