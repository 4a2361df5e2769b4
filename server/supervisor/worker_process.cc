#include "server/supervisor/worker_process.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ferry/config/v1/platform_config.pb.h"
#include "grpcpp/client_context.h"
#include "platform/base/check.h"
#include "server/core/platform_settings.h"
#include "server/core/proto_time.h"
#include "server/ipc/fd_channel.h"
#include "server/ipc/grpc_status.h"
#include "server/supervisor/own_worker.h"

namespace ferry {
namespace {

// A process whose connection has ended ends itself within this time, or is
// taken for broken.
constexpr absl::Duration kExitGrace = absl::Seconds(1);

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

WorkerProcess::WorkerProcess(const WorkerSettings& settings, Position position,
                             std::unique_ptr<WorkerLink> link, UniqueFd socket,
                             OnLost on_lost)
    : settings_(settings),
      position_(position),
      link_(std::move(link)),
      channel_(channel_over_fd(std::move(socket))),
      stub_(worker::v1::WorkerService::NewStub(channel_)),
      rank_(std::make_shared<GrpcRank>(settings.pipeline, channel_)),
      on_lost_(std::move(on_lost)),
      watcher_([this] { watch(); }) {}

WorkerProcess::~WorkerProcess() { stop(absl::ZeroDuration()); }

void WorkerProcess::join_waves() {
  FERRY_CHECK(waves_ == nullptr);
  waves_ = std::make_unique<GrpcWaves>(channel_);
}

void WorkerProcess::watch_waves(
    std::function<void(int64_t last_wave)> on_wanted) {
  FERRY_CHECK(waves_ != nullptr);
  GrpcWaves::Callbacks callbacks;
  callbacks.on_wanted = std::move(on_wanted);
  callbacks.on_error = [this](const absl::Status& error) {
    if (!stopping()) {
      on_lost_(absl::StrCat("broke its waves: ", error.message()));
    }
  };
  waves_->watch(std::move(callbacks));
}

void WorkerProcess::start_wave(int64_t wave) {
  FERRY_CHECK(waves_ != nullptr);
  rank_->set_makes_passes_with_others(true);
  waves_->start(wave);
}

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
  request.set_device_index(place().device_index);
  request.set_intra_op_threads(settings_.intra_op_threads);
  *request.mutable_offload() = settings_.offload;
  *request.mutable_parallel() = settings_.parallel;
  *request.mutable_platform() = platform_config(settings_.platform);
  if (rendezvous.has_value()) {
    worker::v1::Rendezvous& meeting = *request.mutable_rendezvous();
    meeting.set_incarnation(rendezvous->incarnation);
    meeting.set_store_address(rendezvous->store_address);
    if (position_.rank == 0) meeting.set_store_fd(OwnWorker::kStoreFd);
    meeting.set_listen_host(place().listen_host.empty() ? rendezvous->store_host
                                                        : place().listen_host);
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

void WorkerProcess::kill() { link_->kill(); }

void WorkerProcess::interrupt() { link_->interrupt(); }

void WorkerProcess::stop(absl::Duration grace) {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  link_->terminate(grace);
  if (watcher_.joinable()) watcher_.join();
}

std::vector<std::string> WorkerProcess::last_lines() {
  return link_->last_lines();
}

void WorkerProcess::watch() {
  HeartbeatMonitor monitor({settings_.heartbeat_timeout, settings_.step_timeout,
                            settings_.cancel_grace});
  std::optional<std::string> why;
  while (!why.has_value()) {
    why = link_->wait_for(settings_.heartbeat_interval);
    if (!why.has_value()) why = check(monitor);
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
  const std::optional<std::string> end = link_->wait_for(kExitGrace);
  if (end.has_value()) return end;
  return absl::StrCat("broke its connection: ", status.error_message());
}

bool WorkerProcess::stopping() const {
  MutexLock lock(&mutex_);
  return stopping_;
}

}  // namespace ferry
