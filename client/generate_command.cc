#include "client/generate_command.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/error_report.h"
#include "client/exit_codes.h"
#include "client/json_output.h"
#include "client/text_format.h"
#include "platform/base/log_escape.h"
#include "platform/base/status_macros.h"
#include "platform/os/atomic_file.h"

namespace ferry {
namespace {

// Found out before the server works for nothing.
absl::Status check_writable(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write ", path, ": it is a directory"));
  }
  const size_t slash = path.rfind('/');
  const std::string directory =
      slash == path.npos ? "." : path.substr(0, slash + 1);
  if (access(directory.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot write ", path, ": ", directory, ": ", strerror(errno)));
}

}  // namespace

GenerateCommand::GenerateCommand(const CommandContext& context,
                                 GenerateOptions options)
    : context_(context),
      options_(std::move(options)),
      stub_(v1::GenerationService::NewStub(context.channel)),
      display_(context.err, context.terminal, *context.clock) {}

int GenerateCommand::run() {
  absl::Status local;
  for (const std::string& path : {options_.output, options_.preview}) {
    if (local.ok() && !path.empty()) local = check_writable(path);
  }
  if (!local.ok()) {
    *context_.err << printable(local.message()) << std::endl;
    return kLocalError;
  }
  if (context_.timeout != absl::InfiniteDuration()) {
    call_.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMilliseconds(context_.timeout));
  }
  const auto reader = stub_->Generate(&call_, options_.request);
  v1::GenerateResponse response;
  while (local.ok() && reader->Read(&response)) {
    local = on_event(response.event());
  }
  // Nobody wants the rest.
  if (!local.ok()) call_.TryCancel();
  while (!local.ok() && reader->Read(&response)) {
  }
  const grpc::Status remote = reader->Finish();
  display_.end_line();
  return finish(local, remote);
}

void GenerateCommand::interrupt() {
  std::string name;
  {
    MutexLock lock(&mutex_);
    if (!interrupted_) name = job_name_;
    interrupted_ = true;
  }
  if (!name.empty()) {
    grpc::ClientContext call;
    call.set_deadline(std::chrono::system_clock::now() +
                      std::chrono::seconds(2));
    v1::CancelJobRequest request;
    request.set_name(name);
    v1::CancelJobResponse response;
    if (stub_->CancelJob(&call, request, &response).ok()) return;
  }
  call_.TryCancel();
}

absl::Status GenerateCommand::on_event(const v1::JobEvent& event) {
  if (context_.json) print_event(event);
  switch (event.event_case()) {
    case v1::JobEvent::kJob:
      on_job(event.job());
      return absl::OkStatus();
    case v1::JobEvent::kProgress:
      if (!context_.json) display_.on_progress(event.progress());
      return absl::OkStatus();
    case v1::JobEvent::kPreview:
      if (options_.preview.empty()) return absl::OkStatus();
      return write_file_atomically(options_.preview, event.preview().data());
    case v1::JobEvent::kOutputChunk:
      return on_chunk(event.output_chunk());
    case v1::JobEvent::EVENT_NOT_SET:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

void GenerateCommand::on_job(const v1::Job& job) {
  job_ = job;
  {
    MutexLock lock(&mutex_);
    job_name_ = job.name();
  }
  if (!context_.json) display_.on_job(job);
}

absl::Status GenerateCommand::on_chunk(const v1::OutputChunk& chunk) {
  if (options_.request.spec().output().omit_data()) {
    ++received_;
    if (context_.json) return absl::OkStatus();
    tell(absl::StrCat("made output ", chunk.index()), chunk.final_info());
    *context_.out << printable(chunk.final_info().sha256()) << std::endl;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::optional<FinishedOutput> output,
                   collector_.add(chunk));
  if (!output.has_value()) return absl::OkStatus();
  const std::string path = output_path(options_.output, output->info.index(),
                                       job_.effective_spec().num_images());
  RETURN_IF_ERROR(write_file_atomically(path, output->data));
  ++received_;
  if (context_.json) {
    std::string line = "{\"file\":";
    append_json_string(path, &line);
    *context_.out << line << "}" << std::endl;
    return absl::OkStatus();
  }
  tell(absl::StrCat("saved ", path), output->info);
  *context_.out << path << std::endl;
  return absl::OkStatus();
}

void GenerateCommand::tell(absl::string_view what, const v1::OutputInfo& info) {
  display_.end_line();
  *context_.err << absl::StrCat(what, ", ", info.width(), "x", info.height(),
                                ", ", short_bytes(info.size_bytes()), ", seed ",
                                info.seed())
                << std::endl;
}

void GenerateCommand::print_event(const v1::JobEvent& event) const {
  v1::JobEvent shown = event;
  if (shown.has_preview()) shown.mutable_preview()->clear_data();
  if (shown.has_output_chunk()) shown.mutable_output_chunk()->clear_data();
  print_json_line(shown, context_.out);
}

int GenerateCommand::finish(const absl::Status& local,
                            const grpc::Status& remote) {
  if (!local.ok()) {
    *context_.err << printable(local.message()) << std::endl;
    return kLocalError;
  }
  if (!remote.ok()) {
    MutexLock lock(&mutex_);
    const int code = report_error(remote, context_.err);
    return interrupted_ ? kInterrupted : code;
  }
  if (received_ != job_.outputs_size() || received_ == 0) {
    *context_.err << "the server promised " << job_.outputs_size()
                  << " outputs and sent " << received_ << std::endl;
    return kLocalError;
  }
  if (!context_.json) {
    *context_.err << "done in "
                  << short_duration(to_duration(job_.timings().total()))
                  << std::endl;
    if (job_.prompt_truncated()) {
      *context_.err << "the prompt was too long for the pipeline and was cut"
                    << std::endl;
    }
  }
  return kSuccess;
}

}  // namespace ferry
