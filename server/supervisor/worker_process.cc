#include "server/supervisor/worker_process.h"

#include <signal.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ferry/config/v1/platform_config.pb.h"
#include "grpcpp/client_context.h"
#include "platform/base/status_macros.h"
#include "platform/os/exit_status.h"
#include "platform/os/pipe.h"
#include "platform/os/socket_pair.h"
#include "server/core/platform_settings.h"
#include "server/core/proto_time.h"
#include "server/ipc/fd_channel.h"
#include "server/ipc/grpc_status.h"
#include "server/ipc/worker_exit.h"

namespace ferry {
namespace {

// The kernel shall take workers before ferryd and before most else.
constexpr int kOomScoreAdj = 500;
// Where the child finds what it inherits, in this order.
constexpr int kIpcFd = 3;
constexpr int kLifelineFd = 4;
constexpr int kStoreFd = 5;
// A process whose connection has ended ends itself within this time, or is
// taken for broken.
constexpr absl::Duration kExitGrace = absl::Seconds(1);
// What it wrote last is read within this time of its end, unless a child of
// its own holds the pipe.
constexpr absl::Duration kTailTimeout = absl::Seconds(1);

std::chrono::system_clock::time_point deadline_in(absl::Duration timeout) {
  return std::chrono::system_clock::now() + absl::ToChronoMicroseconds(timeout);
}

config::v1::PlatformConfig platform_config(const PlatformSettings& settings) {
  config::v1::PlatformConfig config;
  config.set_platform(settings.platform);
  config.set_simulated_device_memory(settings.simulated_device_memory);
  config.set_simulated_h2d_gbps(settings.simulated_h2d_gbps);
  config.set_simulated_d2h_gbps(settings.simulated_d2h_gbps);
  *config.mutable_simulated_latency() = to_proto(settings.simulated_latency);
  config.set_simulated_copy_engines(settings.simulated_copy_engines);
  config.set_simulated_check(settings.simulated_check);
  return config;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::start(
    const WorkerSettings& settings, Position position, ProcessSpawner& spawner,
    LogDrain& drain, OnLost on_lost, GroupFds group) {
  ASSIGN_OR_RETURN(SocketPair ipc, make_socket_pair());
  ASSIGN_OR_RETURN(Pipe lifeline, make_pipe());
  ASSIGN_OR_RETURN(Pipe output, make_pipe());
  SubprocessOptions options;
  options.argv = settings.command;
  options.argv.push_back(absl::StrCat("--ipc_fd=", kIpcFd));
  options.argv.push_back(absl::StrCat("--lifeline_fd=", kLifelineFd));
  options.argv.push_back(absl::StrCat("--rank=", position.rank));
  options.argv.push_back(absl::StrCat("--generation=", position.generation));
  options.inherited = {ipc.second.get(), lifeline.read_end.get()};
  if (group.store >= 0) options.inherited.push_back(group.store);
  if (group.images >= 0) {
    options.argv.push_back(absl::StrCat(
        "--images_fd=", kIpcFd + static_cast<int>(options.inherited.size())));
    options.inherited.push_back(group.images);
  }
  options.stdout_fd = output.write_end.get();
  options.stderr_fd = output.write_end.get();
  options.oom_score_adj = kOomScoreAdj;
  ASSIGN_OR_RETURN(std::unique_ptr<Subprocess> process, spawner.spawn(options));
  std::shared_ptr<LogTail> tail =
      drain.add({settings.pipeline, position.rank}, std::move(output.read_end));
  // The child's ends must not stay open here, else their other ends never see
  // an end.
  ipc.second.reset();
  lifeline.read_end.reset();
  output.write_end.reset();
  return std::unique_ptr<WorkerProcess>(new WorkerProcess(
      settings, position, std::move(process), std::move(tail),
      std::move(ipc.first), std::move(lifeline.write_end), std::move(on_lost)));
}

WorkerProcess::WorkerProcess(const WorkerSettings& settings, Position position,
                             std::unique_ptr<Subprocess> process,
                             std::shared_ptr<LogTail> tail, UniqueFd ipc,
                             UniqueFd lifeline, OnLost on_lost)
    : settings_(settings),
      position_(position),
      process_(std::move(process)),
      tail_(std::move(tail)),
      channel_(channel_over_fd(std::move(ipc))),
      stub_(worker::v1::WorkerService::NewStub(channel_)),
      rank_(std::make_shared<GrpcRank>(settings.pipeline, channel_)),
      on_lost_(std::move(on_lost)),
      lifeline_(std::move(lifeline)),
      watcher_([this] { watch(); }) {}

WorkerProcess::~WorkerProcess() { stop(absl::ZeroDuration()); }

void WorkerProcess::join_waves() {
  waves_ = std::make_unique<GrpcWaves>(channel_);
}

void WorkerProcess::watch_waves(
    std::function<void(int64_t last_wave)> on_wanted) {
  GrpcWaves::Callbacks callbacks;
  callbacks.on_wanted = std::move(on_wanted);
  callbacks.on_error = [this](const absl::Status& error) {
    if (!stopping()) {
      on_lost_(absl::StrCat("broke its waves: ", error.message()));
    }
  };
  waves_->watch(std::move(callbacks));
}

void WorkerProcess::start_wave(int64_t wave) { waves_->start(wave); }

void WorkerProcess::leave_waves() {
  if (waves_ != nullptr) waves_->stop();
}

absl::StatusOr<worker::v1::LoadPipelineResponse> WorkerProcess::load(
    const std::optional<Rendezvous>& rendezvous) {
  worker::v1::LoadPipelineRequest request;
  request.set_pipeline(settings_.pipeline);
  request.set_package_dir(settings_.package_dir);
  request.set_rank(position_.rank);
  request.set_world_size(settings_.ranks);
  request.set_generation(position_.generation);
  request.set_intra_op_threads(settings_.intra_op_threads);
  *request.mutable_offload() = settings_.offload;
  *request.mutable_parallel() = settings_.parallel;
  *request.mutable_platform() = platform_config(settings_.platform);
  if (rendezvous.has_value()) {
    worker::v1::Rendezvous& meeting = *request.mutable_rendezvous();
    meeting.set_incarnation(rendezvous->incarnation);
    meeting.set_store_address(rendezvous->store_address);
    if (position_.rank == 0) meeting.set_store_fd(kStoreFd);
    *meeting.mutable_join_timeout() = to_proto(settings_.load_timeout);
    *meeting.mutable_operation_timeout() = to_proto(settings_.step_timeout);
  }
  grpc::ClientContext context;
  context.set_deadline(deadline_in(settings_.load_timeout));
  worker::v1::LoadPipelineResponse response;
  const grpc::Status status = stub_->LoadPipeline(&context, request, &response);
  if (!status.ok()) return from_grpc_status(status);
  return response;
}

void WorkerProcess::kill() { process_->send_signal(SIGKILL); }

void WorkerProcess::interrupt() { process_->send_signal(SIGTERM); }

void WorkerProcess::stop(absl::Duration grace) {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  process_->terminate(grace);
  if (watcher_.joinable()) watcher_.join();
}

std::vector<std::string> WorkerProcess::last_lines() {
  if (process_->wait_for(absl::ZeroDuration()).has_value()) {
    tail_->wait_closed(kTailTimeout);
  }
  return tail_->lines();
}

void WorkerProcess::watch() {
  HeartbeatMonitor monitor({settings_.heartbeat_timeout, settings_.step_timeout,
                            settings_.cancel_grace});
  std::optional<std::string> why;
  while (!why.has_value()) {
    const std::optional<ExitStatus> status =
        process_->wait_for(settings_.heartbeat_interval);
    why = status.has_value() ? describe_worker_exit(*status) : check(monitor);
  }
  if (!stopping()) on_lost_(*why);
}

std::optional<std::string> WorkerProcess::check(HeartbeatMonitor& monitor) {
  grpc::ClientContext context;
  context.set_deadline(deadline_in(monitor.attempt_timeout()));
  worker::v1::HeartbeatResponse response;
  const grpc::Status status = stub_->Heartbeat(&context, {}, &response);
  if (status.ok()) return monitor.on_answer(response);
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return monitor.on_timeout();
  }
  const std::optional<ExitStatus> exit = process_->wait_for(kExitGrace);
  if (exit.has_value()) return describe_worker_exit(*exit);
  return absl::StrCat("broke its connection: ", status.error_message());
}

bool WorkerProcess::stopping() const {
  MutexLock lock(&mutex_);
  return stopping_;
}

}  // namespace ferry
