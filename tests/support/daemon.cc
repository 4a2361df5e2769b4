#include "tests/support/daemon.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "tests/support/files.h"
#include "tests/support/processes.h"

namespace ferry {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

void set_timeout(grpc::ClientContext& context, absl::Duration timeout) {
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMilliseconds(timeout));
}

// One, unless tests/run_on_cpus says otherwise: operators as small as those of
// tests wait more than they work.
std::string intra_op_threads() {
  const char* threads = std::getenv("FERRY_TEST_INTRA_OP_THREADS");
  return threads == nullptr ? "1" : threads;
}

}  // namespace

Daemon::Daemon(const Options& options)
    : address_file_(absl::StrCat(make_directory("addresses"), "/addresses")),
      working_directory_(make_directory("cwd")),
      temporary_directory_(make_directory("tmp")),
      process_(process_options(options)) {}

ChildProcess::Options Daemon::process_options(const Options& options) const {
  adopt_orphans();
  ChildProcess::Options result;
  result.arguments = {
      runfile("server/frontend/ferryd"),
      absl::StrCat("--grpc_address=", options.grpc_address),
      "--health_address=127.0.0.1:0",
      absl::StrCat("--address_file=", address_file_),
      absl::StrCat("--intra_op_threads=", intra_op_threads()),
  };
  const bool has_worker = std::any_of(
      options.flags.begin(), options.flags.end(), [](const std::string& flag) {
        return absl::StartsWith(flag, "--worker_path=");
      });
  if (has_product_folder() && !has_worker) {
    result.arguments.push_back(absl::StrCat(
        "--worker_path=", product_program("server/worker/ferry_worker")));
  }
  std::string pipelines;
  for (const auto& [name, package] : options.pipelines) {
    absl::StrAppend(&pipelines, pipelines.empty() ? "" : ",", name, "=",
                    package);
  }
  if (!pipelines.empty()) {
    result.arguments.push_back(absl::StrCat("--pipeline=", pipelines));
  }
  result.arguments.insert(result.arguments.end(), options.flags.begin(),
                          options.flags.end());
  result.environment = options.environment;
  result.environment.push_back(absl::StrCat("TMPDIR=", temporary_directory_));
  result.stderr_path = options.stderr_path;
  result.working_directory = working_directory_;
  return result;
}

bool Daemon::wait_until_listening() {
  std::optional<std::string> addresses;
  eventually([&] {
    addresses = read_file(address_file_);
    return addresses.has_value() || !process_.is_running();
  });
  if (!addresses.has_value()) return false;
  // One "NAME=ADDRESS" a line.
  std::istringstream lines(*addresses);
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = line.substr(0, equals);
    if (name == "grpc") grpc_address_ = line.substr(equals + 1);
    if (name == "health") health_address_ = line.substr(equals + 1);
    if (name == "worker") worker_address_ = line.substr(equals + 1);
  }
  if (grpc_address_.empty()) return false;
  channel_ = new_channel();
  generation_ = v1::GenerationService::NewStub(channel_);
  pipeline_service_ = v1::PipelineService::NewStub(channel_);
  health_ = grpc::health::v1::Health::NewStub(channel_);
  return true;
}

bool Daemon::wait_until_ready() {
  if (channel_ == nullptr && !wait_until_listening()) return false;
  if (!wait_for_health("readiness", HealthCheckResponse::SERVING)) {
    return false;
  }
  ready_sockets_ = count_sockets(process_.pid());
  return true;
}

std::shared_ptr<grpc::Channel> Daemon::new_channel() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(
      address(), grpc::InsecureChannelCredentials(), arguments);
}

HealthCheckResponse::ServingStatus Daemon::check_health(
    const std::string& service) {
  grpc::ClientContext context;
  set_timeout(context, kPatience);
  HealthCheckRequest request;
  request.set_service(service);
  HealthCheckResponse response;
  if (!health_->Check(&context, request, &response).ok()) {
    return HealthCheckResponse::UNKNOWN;
  }
  return response.status();
}

bool Daemon::wait_for_health(const std::string& service,
                             HealthCheckResponse::ServingStatus status,
                             absl::Duration timeout) {
  grpc::ClientContext context;
  set_timeout(context, timeout);
  HealthCheckRequest request;
  request.set_service(service);
  const auto reader = health_->Watch(&context, request);
  bool found = false;
  for (HealthCheckResponse response; !found && reader->Read(&response);) {
    found = response.status() == status;
  }
  context.TryCancel();
  for (HealthCheckResponse response; reader->Read(&response);) {
  }
  reader->Finish();
  return found;
}

v1::Pipeline Daemon::get_pipeline(const std::string& name) {
  grpc::ClientContext context;
  set_timeout(context, kPatience);
  v1::GetPipelineRequest request;
  request.set_name(name);
  v1::GetPipelineResponse response;
  pipeline_service_->GetPipeline(&context, request, &response);
  return response.pipeline();
}

std::vector<v1::Job> Daemon::unfinished_jobs() {
  grpc::ClientContext context;
  set_timeout(context, kPatience);
  v1::ListJobsRequest request;
  request.add_states(v1::Job::STATE_QUEUED);
  request.add_states(v1::Job::STATE_RUNNING);
  v1::ListJobsResponse response;
  generation_->ListJobs(&context, request, &response);
  return {response.jobs().begin(), response.jobs().end()};
}

std::vector<pid_t> Daemon::worker_pids() const {
  std::vector<pid_t> pids;
  for (const pid_t pid : find_children(process_.pid())) {
    if (is_worker(pid) && process_state(pid) != 'Z') {
      pids.push_back(pid);
    }
  }
  return pids;
}

pid_t Daemon::wait_for_worker(pid_t old_pid) const {
  pid_t found = 0;
  eventually([&] {
    for (const pid_t pid : worker_pids()) {
      if (pid != old_pid) found = pid;
    }
    return found != 0;
  });
  return found;
}

std::vector<std::string> Daemon::leftover_files() const {
  std::vector<std::string> files;
  for (const std::string& directory :
       {working_directory_, temporary_directory_}) {
    for (const std::string& name : list_directory(directory)) {
      files.push_back(absl::StrCat(directory, "/", name));
    }
  }
  return files;
}

}  // namespace ferry
